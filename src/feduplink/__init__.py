"""Transmit-power control for wireless federated learning.

>>> import torch
>>> from feduplink import FullPower, Scenario, draw_csi, evaluate
>>> scenario = Scenario(workers=4)
>>> csi = draw_csi(scenario, 100, torch.Generator().manual_seed(0))
>>> evaluate(FullPower(scenario), csi, scenario).participation
1.0
"""

from feduplink.channels import draw_channels, draw_csi, read_channels, write_channels
from feduplink.errors import InputError
from feduplink.evaluation import evaluate
from feduplink.federated import federate, load_task
from feduplink.judgement import Judgement, judge
from feduplink.learning import Training, TrainingData, TrainingSettings
from feduplink.link import Measure
from feduplink.observing import observed_by, show_progress
from feduplink.optimum import Optimum, find_optimum
from feduplink.policies import (
    DualPolicy,
    FullPower,
    GraphPolicy,
    OpenLoop,
    Orthogonal,
    PerceptronPolicy,
    Policy,
    RandomPower,
    load_policy,
    save_policy,
)
from feduplink.problem import Constraint, Problem
from feduplink.scenario import Scenario, shipped_scenarios
from feduplink.version import __version__

__all__ = [
    "Constraint",
    "DualPolicy",
    "FullPower",
    "GraphPolicy",
    "InputError",
    "Judgement",
    "Measure",
    "OpenLoop",
    "Optimum",
    "Orthogonal",
    "PerceptronPolicy",
    "Policy",
    "Problem",
    "RandomPower",
    "Scenario",
    "Training",
    "TrainingData",
    "TrainingSettings",
    "__version__",
    "draw_channels",
    "draw_csi",
    "evaluate",
    "federate",
    "find_optimum",
    "judge",
    "load_policy",
    "load_task",
    "observed_by",
    "read_channels",
    "save_policy",
    "shipped_scenarios",
    "show_progress",
    "write_channels",
]
