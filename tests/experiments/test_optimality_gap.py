from __future__ import annotations

import csv
from pathlib import Path

import pytest

from feduplink.experiments.context import ExperimentContext
from feduplink.experiments.optimality_gap import OptimalityGap, OptimalityGapResult

from .made import FAILS, HOLDS, IN_PART, assert_drawn, outcome, sweep, verdicts
from .tiny import small_experiment


def _made(
    pdg: tuple[float, float], ours: tuple[float, float], bound: tuple[float, float]
) -> OptimalityGapResult:
    """Two settings, both with the optimum at 0.8."""

    def pairs(objectives: tuple[float, float]) -> list[tuple[float, float]]:
        return [(objective, 0.1) for objective in objectives]

    policies = {"pdm": pairs(pdg), "pdg": pairs(pdg), "openloop": pairs(pdg)}
    return OptimalityGapResult(
        scenarios=["a", "b"],
        sweep=sweep(**policies, dual=pairs(ours), pdx=pairs(ours), optimum=pairs((0.8, 0.8))),
        optimum=[0.8, 0.8],
        upper_bound=list(bound),
    )


def test_claims():
    near = _made(pdg=(0.76, 0.79), ours=(0.795, 0.8), bound=(0.805, 0.81))
    assert verdicts(OptimalityGap().claims(near)) == [HOLDS] * 3
    far = _made(pdg=(0.6, 0.7), ours=(0.7, 0.7), bound=(0.9, 0.9))
    assert verdicts(OptimalityGap().claims(far)) == [FAILS] * 3
    mixed = _made(pdg=(0.76, 0.7), ours=(0.795, 0.7), bound=(0.805, 0.9))
    assert verdicts(OptimalityGap().claims(mixed)) == [IN_PART] * 3


def test_an_infeasible_policy_is_not_near():
    cheating = _made(pdg=(0.8, 0.8), ours=(0.9, 0.9), bound=(0.8, 0.8))
    for name in ("pdg", "dual", "pdx"):
        cheating.sweep.policies[name] = [[outcome(1.0, feasible=False)]] * 2
    assert verdicts(OptimalityGap().claims(cheating)) == [HOLDS, FAILS, FAILS]


def test_a_distance_is_that_of_the_repaired_policy():
    """Short by chance: above the optimum as it is, below it once repaired."""
    result = _made(pdg=(0.7, 0.7), ours=(0.8, 0.8), bound=(0.9, 0.9))
    short = outcome(0.81, feasible=None)
    result.sweep.policies["dual"][0] = [short.model_copy(update={"repaired_objective": 0.79})] * 2
    assert result.distances("dual", 0) == pytest.approx([0.01, 0.01])
    assert result.distances("pdg", 1) == pytest.approx([0.1, 0.1])
    result.sweep.policies["pdg"][1] = [outcome(0.9, feasible=False)] * 2
    assert result.distances("pdg", 1) is None
    measured = OptimalityGap().claims(result)[1].measured
    assert "pdg 0.100, infeasible" in measured


def test_csv_has_the_bound_of_the_first_seed():
    rows = list(csv.DictReader(_made((0.7, 0.7), (0.8, 0.8), (0.9, 0.95)).to_csv().splitlines()))
    assert len(rows) == 2 * 2 * 6
    bounds = {(row["scenario"], row["run"], row["upper_bound"]) for row in rows}
    assert bounds == {("a", "0", "0.9"), ("b", "0", "0.95"), ("a", "1", ""), ("b", "1", "")}


def test_the_upper_bound_is_above_the_optimum_and_the_optimum_above_the_policies(
    context: ExperimentContext,
):
    result = small_experiment("optimality-gap").run(context)
    assert result.scenarios == ["default", "interference-x2"]
    for index in range(2):
        assert result.upper_bound[index] >= result.optimum[index]
        assert result.optimum[index] >= result.sweep.mean("optimum", index, "objective")
        for name in result.sweep.policies:
            distances = result.distances(name, index)
            assert distances is None or min(distances) >= 0


def test_the_figure(tmp_path: Path):
    result = OptimalityGapResult(
        scenarios=["default", "interference-x2"],
        sweep=sweep(pdg=[(0.5, 0.3), (0.71, 0.3)], optimum=[(0.7, 0.1), (0.7, 0.1)]),
        optimum=[0.7, 0.7],
        upper_bound=[0.7, 0.75],
    )
    assert_drawn(OptimalityGap(), result, tmp_path)
