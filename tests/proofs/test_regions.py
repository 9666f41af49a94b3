"""A region contains all powers of its box, and the halves of a box cover it."""

from __future__ import annotations

import numpy as np
import pytest

from feduplink.proofs import Proof
from feduplink.proofs.format import Node
from feduplink.proofs.regions import Gains, Regions

from .plain_search import plain_proof
from .reference import sinrs
from .searched import searched_proof


def _holds(regions: Regions, row: int, sinr: np.ndarray, power: np.ndarray) -> bool:
    """Whether a region contains powers (L,) with these SINRs."""
    on = power > 0
    region = regions.take(np.array([row]))
    within = (region.power_low <= power) & (power <= region.power_high)
    within &= (region.sinr_low <= sinr) & (sinr <= region.sinr_high)
    senders = np.where(on, within & ~region.silent, region.may_be_silent | region.silent)
    return bool(senders.all()) and not region.empty[0]


def _leaves_that_hold(proof: Proof, channel: int, power: np.ndarray) -> list[Node]:
    """Kinds of the leaves that contain powers (L,) of a channel."""
    tree = proof.tree
    every = Gains.from_csi(proof.csi.astype(float))
    sinr = sinrs(proof.csi[channel], power)
    regions = Regions.roots(every, proof.problem.pmax_w, proof.floor)
    found = []
    for level in tree.levels():
        regions = regions.tightened(every.take(regions.channel), proof.floor)
        nodes = np.arange(level.start, level.stop)
        for row in np.flatnonzero(regions.channel == channel):
            if not tree.split[nodes[row]] and _holds(regions, int(row), sinr, power):
                found.append(Node(tree.node[nodes[row]]))
        split = tree.split[level]
        rows = nodes[split]
        regions = regions.take(split).halves(
            tree.node[rows], tree.worker[rows], tree.split_at[rows]
        )
    return found


@pytest.mark.parametrize("seed", range(6))
def test_any_powers_are_in_some_leaf(seed: int):
    proof = searched_proof(seed) if seed % 2 else plain_proof(seed)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        channel = int(rng.integers(len(proof.csi)))
        power = proof.problem.pmax_w * 10 ** rng.uniform(-3, 0, len(proof.floor))
        power[rng.random(len(power)) < 0.3] = 0.0
        sinr = sinrs(proof.csi[channel], power)
        power[(power > 0) & (sinr <= proof.floor)] = 0.0
        leaves = _leaves_that_hold(proof, channel, power)
        assert leaves
        assert Node.EMPTY not in leaves


def test_a_split_of_a_silent_worker_has_an_empty_upper_half():
    gains = Gains.from_csi(np.full((1, 2, 2), 100.0))
    root = Regions.roots(gains, np.full(2, 0.01), np.full(2, 1e-6))
    split = np.array([Node.BY_SILENCE]), np.array([0]), np.array([0.0])
    halves = root.halves(*split)
    assert halves.silent.tolist() == [[True, False], [False, False]]
    assert halves.may_be_silent.tolist() == [[False, True], [False, True]]
    quarters = halves.halves(*(np.repeat(values, 2) for values in split))
    assert quarters.empty.tolist() == [False, True, True, False]


def test_limits_of_power_and_sinr_tighten_each_other():
    """Alone the SINR is α p; a worker that surely transmits lowers the SINR of the others."""
    gains = Gains.from_csi(np.array([[[1000.0, 200.0], [100.0, 500.0]]]))
    root = Regions.roots(gains, np.full(2, 0.01), np.full(2, 1e-3))
    both = np.repeat(np.arange(1), 1)
    upper = root.halves(np.array([Node.BY_POWER]), both, np.array([0.005])).take(np.array([1]))
    tight = upper.tightened(gains, np.full(2, 1e-3))
    np.testing.assert_allclose(tight.sinr_high, [[10.0, 5 / 1.5]])
    np.testing.assert_allclose(tight.sinr_low, [[5 / 3, 1e-3]])
    assert tight.sinr_high[0, 1] >= 5 / 1.5
