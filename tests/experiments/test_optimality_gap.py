from __future__ import annotations

import csv

import pytest

from feduplink.experiments import optimality_gap
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.optimality_gap import OptimalityGap

from .made import FAILS, HOLDS, IN_PART, figures, sweep, verdicts


def _made(
    pdg: tuple[float, float], ours: tuple[float, float], bound: tuple[float, float]
) -> OptimalityGap:
    """Two settings, both with the optimum at 0.8."""

    def pairs(objectives: tuple[float, float]) -> list[tuple[float, float]]:
        return [(objective, 0.1) for objective in objectives]

    policies = {"pdm": pairs(pdg), "pdg": pairs(pdg), "openloop": pairs(pdg)}
    return OptimalityGap(
        scenarios=["a", "b"],
        sweep=sweep(**policies, dual=pairs(ours), pdx=pairs(ours), optimum=pairs((0.8, 0.8))),
        optimum=[0.8, 0.8],
        upper_bound=list(bound),
    )


def test_claims():
    near = _made(pdg=(0.76, 0.79), ours=(0.795, 0.8), bound=(0.805, 0.81))
    assert verdicts(optimality_gap.claims(near)) == [HOLDS] * 3
    far = _made(pdg=(0.6, 0.7), ours=(0.7, 0.7), bound=(0.9, 0.9))
    assert verdicts(optimality_gap.claims(far)) == [FAILS] * 3
    mixed = _made(pdg=(0.76, 0.7), ours=(0.795, 0.7), bound=(0.805, 0.9))
    assert verdicts(optimality_gap.claims(mixed)) == [IN_PART] * 3


def test_whoever_misses_the_constraints_is_not_near():
    cheating = _made(pdg=(0.8, 0.8), ours=(0.9, 0.9), bound=(0.8, 0.8))
    for name in ("pdg", "dual", "pdx"):
        cheating.sweep.policies[name] = [[figures(1.0, feasible=False)]] * 2
    assert verdicts(optimality_gap.claims(cheating)) == [HOLDS, FAILS, FAILS]


def test_a_distance_is_that_of_the_repaired_policy():
    """Short by chance: above the optimum as it is, below it once it meets the constraints."""
    result = _made(pdg=(0.7, 0.7), ours=(0.8, 0.8), bound=(0.9, 0.9))
    short = figures(0.81, feasible=None)
    result.sweep.policies["dual"][0] = [short.model_copy(update={"repaired_objective": 0.79})] * 2
    assert result.distances("dual", 0) == pytest.approx([0.01, 0.01])
    assert result.distances("pdg", 1) == pytest.approx([0.1, 0.1])
    result.sweep.policies["pdg"][1] = [figures(0.9, feasible=False)] * 2
    assert result.distances("pdg", 1) is None
    told = optimality_gap.claims(result)[1].measured
    assert "pdg 0.100, missed" in told


def test_csv_has_the_bound_of_the_first_seed():
    rows = list(csv.DictReader(_made((0.7, 0.7), (0.8, 0.8), (0.9, 0.95)).to_csv().splitlines()))
    assert len(rows) == 2 * 2 * 6
    bounds = {(row["scenario"], row["run"], row["upper_bound"]) for row in rows}
    assert bounds == {("a", "0", "0.9"), ("b", "0", "0.95"), ("a", "1", ""), ("b", "1", "")}


def test_the_certificate_is_above_what_was_found(context: ExperimentContext, few_settings: None):
    result = optimality_gap.run(context)
    assert result.scenarios == ["default", "interference-x2"]
    for place in range(2):
        assert result.upper_bound[place] >= result.optimum[place]
        assert result.optimum[place] >= result.sweep.mean("optimum", place, "objective")
        for name in result.sweep.policies:
            distances = result.distances(name, place)
            assert distances is None or min(distances) >= 0
