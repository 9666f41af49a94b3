from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from feduplink import GraphPolicy, InputError, Problem, Scenario, Training, TrainingData
from feduplink.learning import training_settings
from feduplink.learning.problem_identity import problem_identity
from feduplink.problem import Constraint, ProportionalFairness, WeightedSum

SCENARIO = Scenario(workers=3)
PROBLEM = Problem.from_scenario(SCENARIO)
RATE, EFFICIENCY = PROBLEM.constraints


def sinr_above(level: float):
    """Functions of one name that differ in what they compute."""

    def measure(sinr: Tensor, _power: Tensor) -> Tensor:
        return sinr - level

    return measure


def utility(weights: list[float]) -> WeightedSum:
    return WeightedSum(torch.tensor(weights, dtype=torch.float64))


OWN = replace(PROBLEM, objective=sinr_above(1.0))
OTHERS = {
    "objective": replace(PROBLEM, objective=RATE.measure),
    "own objective": OWN,
    "own objective of the same name": replace(PROBLEM, objective=sinr_above(2.0)),
    "utility": replace(PROBLEM, utility=ProportionalFairness(SCENARIO.worker_weights)),
    "weights": replace(PROBLEM, utility=utility([0.2, 0.3, 0.5])),
    "threshold": replace(
        PROBLEM, constraints=(Constraint("rate", RATE.measure, RATE.threshold / 2), EFFICIENCY)
    ),
    "measure of a constraint": replace(
        PROBLEM,
        constraints=(Constraint("rate", lambda sinr, _power: sinr, RATE.threshold), EFFICIENCY),
    ),
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
        (OWN, replace(PROBLEM, objective=sinr_above(1.0))),
        (replace(PROBLEM, objective=functools.partial(torch.add)),) * 2,
    ],
    ids=["scenario", "function", "partial"],
)
def test_the_same_problem_built_again_is_the_same(one, same):
    assert problem_identity(one, 3) == problem_identity(same, 3)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_run_is_not_resumed_under_another_problem(other, tmp_path):
    data = TrainingData(torch.ones(4, 3, 3), torch.ones(4, 3, 3))

    def training(problem: Problem) -> Training:
        settings = training_settings("pdg")
        return Training(GraphPolicy.initialised(SCENARIO), data, settings, problem=problem)

    training(PROBLEM).save(tmp_path / "checkpoint.safetensors")
    training(PROBLEM).resume(tmp_path / "checkpoint.safetensors")
    with pytest.raises(InputError, match="made with another problem"):
        training(other).resume(tmp_path / "checkpoint.safetensors")
