"""Bounds over regions against powers in them, and maxima over intervals against dense grids."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from feduplink.proofs import Proof
from feduplink.proofs import arithmetic as balls
from feduplink.proofs.format import ProvedMeasure
from feduplink.proofs.leaf_bounds import (
    LeafBounds,
    WorkerValue,
    floor_slack,
    max_above_line,
    max_draw_terms,
    peak_power,
    peak_sinr,
    worker_values,
)
from feduplink.proofs.regions import Gains, Regions

from .plain_search import plain_proof
from .reference import lagrangian

_COUNT = 60


def _random_regions(proof: Proof, rng: np.random.Generator) -> tuple[Regions, Gains]:
    """Boxes of powers of all widths; some workers are silent, some may be."""
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
        may_be_silent=kind == 0,
        silent=kind == 1,
    )
    return regions.tightened(gains, proof.floor), gains


def _powers_in(regions: Regions, row: int, rng: np.random.Generator) -> np.ndarray:
    low, high = regions.power_low[row], regions.power_high[row]
    power = low * (high / low) ** rng.choice([0, 1, rng.random()], size=len(low))
    rests = regions.silent[row] | (regions.may_be_silent[row] & (rng.random(len(low)) < 0.4))
    return np.where(rests, 0.0, power)


@pytest.mark.parametrize("seed", range(12))
def test_values_in_a_region_are_at_most_its_bounds(seed: int):
    rng = np.random.default_rng(seed)
    proof = plain_proof(seed, depth=0)
    regions, gains = _random_regions(proof, rng)
    with balls.precision():
        values = worker_values(proof)
        bounds = LeafBounds(values, floor_slack(values, proof.floor))
        monotone = list(bounds.monotone(regions, gains))
        shape = regions.power_low.shape
        at = regions.power_low * 10 ** rng.uniform(0, 1, shape)
        slope = rng.uniform(0, 1, shape) * sum(map(float, (w.success for w in values)))
        tangent = list(bounds.tangent(regions, gains, at, slope, rng.random(shape) < 0.5))
    for row in np.flatnonzero(~regions.empty):
        sampled = [
            lagrangian(proof, proof.csi[regions.channel[row]], _powers_in(regions, row, rng))
            for _ in range(60)
        ]
        most = max(sampled)
        assert most <= float(monotone[row].upper()) + 1e-9
        assert most <= float(tangent[row].upper()) + 1e-9


@pytest.mark.parametrize("objective", ProvedMeasure)
def test_the_monotone_bound_of_a_single_worker_is_its_maximum(objective: ProvedMeasure):
    """One worker that must transmit, against the best power of a fine grid."""
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
    regions = replace(roots, may_be_silent=np.zeros_like(roots.may_be_silent)).tightened(
        gains, proof.floor
    )
    with balls.precision():
        values = worker_values(proof)
        bounds = LeafBounds(values, floor_slack(values, proof.floor))
        found = [float(bound) for bound in bounds.monotone(regions, gains)]
    for csi, bound in zip(proof.csi, found, strict=True):
        grid = problem.pmax_w * np.geomspace(1e-4, 1, 5_000)[:, None]
        best = max(lagrangian(proof, csi, power) for power in grid)
        assert best <= bound + 1e-12
        assert bound <= best + 1e-6 * abs(best)


_GRID = np.linspace(0, 1, 4001)


def _worker_value(success: float, waterfall: float) -> WorkerValue:
    return WorkerValue(*(arb(value) for value in (success, 0.0, 0.0, 0.0, waterfall, 0.01, 1.3)))


@given(
    st.floats(0, 2) | st.just(0.0),
    st.floats(0, 1) | st.just(0.0),
    st.floats(0, 2) | st.just(0.0),
    st.sampled_from([0.01, 0.3, 0.99, 1.0, 4.0]),
    st.floats(-8, 6),
    st.floats(1e-6, 12),
    st.sampled_from(["found", "none", "bad"]),
)
def test_the_maximum_of_a_value_over_a_line_is_tight(
    success: float, per_rate: float, slope: float, m: float, start: float, width: float, guess: str
):
    low, high = float(np.exp(start)), float(np.exp(start + width))
    arguments = (np.array([value]) for value in (success, per_rate, slope))
    peak = float(peak_sinr(*arguments, m, np.array([low]), np.array([high]))[0])
    if guess != "found":
        peak = float("nan") if guess == "none" else (low * high) ** 0.5
    with balls.precision():
        worker_value = _worker_value(success, m)
        found = max_above_line(worker_value, arb(per_rate), arb(slope), arb(low), arb(high), peak)
    s = np.log(low) + (np.log(high) - np.log(low)) * _GRID
    values = success * np.exp(-m * np.exp(-s)) + per_rate * np.log1p(np.exp(s)) - slope * s
    best = values.max()
    assert best <= float(found.upper()) + 1e-12
    if guess == "found":
        # The error of the grid is bounded by the curvature.
        assert float(found.upper()) <= best + (success + per_rate) * (width / 4000) ** 2 + 1e-9


@given(
    st.floats(-1, 1),
    st.floats(0, 1) | st.just(0.0),
    st.floats(-12, 0),
    st.floats(1e-6, 10),
    st.booleans(),
)
def test_the_maximum_of_the_terms_in_power_is_tight(
    gradient: float, factor: float, start: float, width: float, good: bool
):
    low, high = float(np.exp(start)), float(np.exp(start + width))
    scaled = 0.01 * factor
    guess = peak_power(
        np.array([gradient]), np.array([scaled]), np.array([0.01]), 1.3, np.array([low])
    )
    turn = min(float(guess[0]), high) if good else high
    with balls.precision():
        found = max_draw_terms(
            _worker_value(1.0, 0.02), *(arb(v) for v in (gradient, scaled, 0.02, low, high, turn))
        )
    t = np.log(low) + (np.log(high) - np.log(low)) * _GRID
    best = (gradient * (t - np.log(0.02)) + scaled / (1.3 * np.exp(t) + 0.01)).max()
    assert best <= float(found.upper()) + 1e-12
    if good:
        assert float(found.upper()) <= best + factor * (width / 4000) ** 2 + 1e-9
