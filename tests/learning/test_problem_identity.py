from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from feduplink import GraphPolicy, InputError, Problem, Scenario, Training, TrainingData
from feduplink.learning import training_settings
from feduplink.learning.problem_identity import problem_identity
from feduplink.link import Measure, PacketSuccess
from feduplink.problem import Constraint
from feduplink.utility import ProportionalFairness, WeightedSum
from link.own_measures import Sinr

SCENARIO = Scenario(workers=3)
PROBLEM = Problem.from_scenario(SCENARIO)
RATE, EFFICIENCY = PROBLEM.constraints


class SinrAbove(Measure):
    """Measures of one name that differ in what they compute."""

    name = "above"

    def __init__(self, level: float) -> None:
        self.level = level

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return sinr - self.level


def utility(weights: list[float]) -> WeightedSum:
    return WeightedSum(torch.tensor(weights, dtype=torch.float64))


def with_rate(constraint: Constraint) -> Problem:
    return replace(PROBLEM, constraints=(constraint, EFFICIENCY))


OWN = replace(PROBLEM, objective=SinrAbove(1.0))
OTHERS = {
    "objective": replace(PROBLEM, objective=RATE.measure),
    "own objective": OWN,
    "own objective of the same name": replace(PROBLEM, objective=SinrAbove(2.0)),
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


def test_every_difference_is_seen():
    identities = [problem_identity(problem, 3) for problem in (PROBLEM, *OTHERS.values())]
    for i, identity in enumerate(identities):
        assert identity not in identities[:i]


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (PROBLEM, Problem.from_scenario(Scenario(workers=3))),
        (OWN, replace(PROBLEM, objective=SinrAbove(1.0))),
    ],
    ids=["scenario", "own"],
)
def test_the_same_problem_built_again_is_the_same(one, same):
    assert problem_identity(one, 3) == problem_identity(same, 3)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_run_is_not_resumed_under_another_problem(other, tmp_path):
    data = TrainingData(torch.ones(4, 3, 3), torch.ones(4, 3, 3))

    def training(problem: Problem) -> Training:
        settings = training_settings(GraphPolicy)
        return Training(GraphPolicy.initialised(SCENARIO), data, settings, problem=problem)

    training(PROBLEM).save(tmp_path / "checkpoint.safetensors")
    training(PROBLEM).resume(tmp_path / "checkpoint.safetensors")
    with pytest.raises(InputError, match="made with another problem"):
        training(other).resume(tmp_path / "checkpoint.safetensors")
