"""No powers of a region have a Lagrangian above its bound; alone on the air they reach it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from feduplink.proofs import Proof
from feduplink.proofs import arithmetic as balls
from feduplink.proofs.format import ProvedMeasure
from feduplink.proofs.leaf_bounds import LeafBounds, under_the_floor, worker_worths
from feduplink.proofs.regions import Gains, Regions

from .plain_search import plain_proof
from .reference import lagrangian

_COUNT = 60


def _random_regions(proof: Proof, rng: np.random.Generator) -> tuple[Regions, Gains]:
    """Boxes of powers of all widths, some workers silent, some that may rest."""
    rows = rng.integers(len(proof.csi), size=_COUNT)
    gains = Gains.from_csi(proof.csi.astype(float)).take(rows)
    roots = Regions.roots(gains, proof.problem.pmax_w, proof.floor)
    shape = gains.direct.shape
    high = roots.power_high * 10 ** -rng.uniform(0, 2, shape)
    kind = rng.integers(3, size=shape)
    regions = replace(
        roots,
        channel=rows,
        power_high=high,
        power_low=high * 10 ** -rng.uniform(0, 3, shape),
        may_rest=kind == 0,
        silent=kind == 1,
    )
    return regions.tightened(gains, proof.floor), gains


def _powers_in(regions: Regions, row: int, rng: np.random.Generator) -> np.ndarray:
    low, high = regions.power_low[row], regions.power_high[row]
    power = low * (high / low) ** rng.choice([0, 1, rng.random()], size=len(low))
    rests = regions.silent[row] | (regions.may_rest[row] & (rng.random(len(low)) < 0.4))
    return np.where(rests, 0.0, power)


@pytest.mark.parametrize("seed", range(12))
def test_no_powers_exceed_the_bounds(seed: int):
    rng = np.random.default_rng(seed)
    proof = plain_proof(seed, depth=0)
    regions, gains = _random_regions(proof, rng)
    with balls.precision():
        worths = worker_worths(proof)
        bounds = LeafBounds(worths, under_the_floor(worths, proof.floor))
        monotone = list(bounds.monotone(regions, gains))
        shape = regions.power_low.shape
        at = regions.power_low * 10 ** rng.uniform(0, 1, shape)
        slope = rng.uniform(0, 1, shape) * sum(map(float, (w.success for w in worths)))
        tangent = list(bounds.tangent(regions, gains, at, slope, rng.random(shape) < 0.5))
    for row in np.flatnonzero(~regions.empty):
        values = [
            lagrangian(proof, proof.csi[regions.channel[row]], _powers_in(regions, row, rng))
            for _ in range(60)
        ]
        most = max(values)
        assert most <= float(monotone[row].upper()) + 1e-9
        assert most <= float(tangent[row].upper()) + 1e-9


@pytest.mark.parametrize("objective", ProvedMeasure)
def test_alone_on_the_air_the_monotone_bound_is_the_maximum(objective: ProvedMeasure):
    """One worker that is sure to send: the best power of a fine grid, and nothing more."""
    proof = plain_proof(1, workers=1, channels=3, depth=0)
    problem = replace(
        proof.problem,
        objective=objective,
        constraints=(),
        limits=np.zeros((0, 1)),
        active=np.zeros((0, 1), bool),
    )
    proof = replace(proof, problem=problem, multipliers=np.zeros((0, 1)))
    gains = Gains.from_csi(proof.csi.astype(float))
    roots = Regions.roots(gains, problem.pmax_w, proof.floor)
    regions = replace(roots, may_rest=np.zeros_like(roots.may_rest)).tightened(gains, proof.floor)
    with balls.precision():
        worths = worker_worths(proof)
        bounds = LeafBounds(worths, under_the_floor(worths, proof.floor))
        found = [float(bound) for bound in bounds.monotone(regions, gains)]
    for csi, bound in zip(proof.csi, found, strict=True):
        grid = problem.pmax_w * np.geomspace(1e-4, 1, 5_000)[:, None]
        best = max(lagrangian(proof, csi, power) for power in grid)
        assert best <= bound + 1e-12
        assert bound <= best + 1e-6 * abs(best)
