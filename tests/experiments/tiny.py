"""Experiments so small that all of them take seconds."""

from __future__ import annotations

from typing import Any

from feduplink.experiments import EXPERIMENTS, Experiment
from feduplink.experiments.context import Scale
from feduplink.experiments.optimality_gap import OptimalityGap
from feduplink.experiments.parameter_sweeps import (
    CsiNoise,
    Interference,
    MaximumPower,
    NetworkSize,
)
from feduplink.federated import LocalWork
from feduplink.federated.tasks.reviews import Size

TINY = Scale(
    name="tiny",
    seeds=1,
    channels=20,
    verdict_channels=40,
    epochs=2,
    solved_channels=12,
    proof_s=0.0,
    runs=2,
    noniid_runs=1,
    text_runs=1,
    rounds=3,
    text_rounds=3,
    text_size=Size(train=400, test=60, words=500, length=24, hidden=8),
    text_work=LocalWork(batch_size=10, batches=2, learning_rate=2e-3, clip_norm=5.0, epsilon=1e-5),
)

_SMALL = (
    Interference(scenarios=((1.0, "default"), (2.0, "interference-x2"))),
    MaximumPower(scenarios=((-20.0, "default"), (0.0, "pmax-0dbw"))),
    NetworkSize(workers=(8, 6)),
    CsiNoise(variances=(1.0, 1e4)),
    OptimalityGap(scenarios=("default", "interference-x2")),
)


def small_experiment(name: str) -> Experiment[Any]:
    """Return the experiment ``name``, with two values of its parameter if it has one."""
    small = {experiment.name: experiment for experiment in _SMALL}
    return small.get(name) or EXPERIMENTS[name]
