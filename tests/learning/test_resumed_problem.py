from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from feduplink import GraphPolicy, InputError, Problem, Scenario, Training, TrainingData
from feduplink.link import Measure, PacketSuccess
from feduplink.problem import Constraint, ProportionalFairness, WeightedSum
from feduplink.training import training_settings
from link.own_measures import Sinr

SCENARIO = Scenario(workers=3)
PROBLEM = Problem.from_scenario(SCENARIO)
RATE, EFFICIENCY = PROBLEM.constraints


class SinrAbove(Measure):
    """Differs between levels."""

    name = "above"

    def __init__(self, level: float) -> None:
        self.level = level

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return sinr - self.level


class SinrBelow(SinrAbove):
    """Another class with the same name and attributes."""

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return self.level - sinr


def utility(weights: list[float]) -> WeightedSum:
    return WeightedSum(torch.tensor(weights, dtype=torch.float64))


def with_rate(constraint: Constraint) -> Problem:
    return replace(PROBLEM, constraints=(constraint, EFFICIENCY))


OWN = replace(PROBLEM, objective=SinrAbove(1.0))
OTHERS = {
    "objective": replace(PROBLEM, objective=RATE.measure),
    "own objective": OWN,
    "utility": replace(PROBLEM, utility=ProportionalFairness(SCENARIO.worker_weights)),
    "weights": replace(PROBLEM, utility=utility([0.2, 0.3, 0.5])),
    "threshold": with_rate(Constraint.at_least(RATE.measure, RATE.limit / 2)),
    "upper limit": with_rate(Constraint.below(RATE.measure, -RATE.limit)),
    "whom it is for": with_rate(
        Constraint.at_least(RATE.measure, RATE.limit, torch.tensor([True, True, False]))
    ),
    "measure of a constraint": with_rate(Constraint.at_least(Sinr(), RATE.limit)),
    "constants of the objective": replace(PROBLEM, objective=PacketSuccess(0.5)),
    "no constraint on the efficiency": replace(PROBLEM, constraints=(RATE,)),
}


def training(problem: Problem) -> Training:
    data = TrainingData(torch.ones(4, 3, 3), torch.ones(4, 3, 3))
    settings = training_settings(GraphPolicy)
    return Training(GraphPolicy.initialised(SCENARIO), data, settings, problem=problem)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_run_is_not_resumed_under_another_problem(other: Problem, tmp_path: Path):
    training(PROBLEM).save(tmp_path / "checkpoint.safetensors")
    with pytest.raises(InputError, match=r"made with another problem \((objective|utility|constr)"):
        training(other).resume(tmp_path / "checkpoint.safetensors")


@pytest.mark.parametrize("one", [PROBLEM, *OTHERS.values()], ids=["scenario", *OTHERS])
def test_a_run_is_resumed_under_the_same_problem_built_again(one: Problem, tmp_path: Path):
    training(one).save(tmp_path / "checkpoint.safetensors")
    training(copy.deepcopy(one)).resume(tmp_path / "checkpoint.safetensors")


def test_measures_of_different_settings_or_classes_are_different_problems(tmp_path: Path):
    training(OWN).save(tmp_path / "checkpoint.safetensors")
    for objective in (SinrAbove(2.0), SinrBelow(1.0)):
        with pytest.raises(InputError, match=r"made with another problem \(objective\)"):
            training(replace(PROBLEM, objective=objective)).resume(
                tmp_path / "checkpoint.safetensors"
            )


def test_a_measure_whose_code_was_edited_is_still_the_same_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    training(OWN).save(tmp_path / "checkpoint.safetensors")
    monkeypatch.setattr(SinrAbove, "value", lambda self, sinr, power: 2 * sinr - self.level)
    training(replace(PROBLEM, objective=SinrAbove(1.0))).resume(tmp_path / "checkpoint.safetensors")
