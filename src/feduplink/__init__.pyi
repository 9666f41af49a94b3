from .channels import draw_channels, draw_csi, read_channels, write_channels
from .errors import InputError
from .evaluation import evaluate
from .federated import federate, load_task
from .judgement import Judgement, judge
from .link import Measure
from .optimum import Optimum, find_optimum
from .policies import (
    DualPolicy,
    FullPower,
    GraphPolicy,
    OpenLoop,
    Orthogonal,
    PerceptronPolicy,
    Policy,
    RandomPower,
    load_policy,
    make_policies,
    make_policy,
    save_policy,
)
from .problem import Constraint, Problem
from .progress import Callback, report_to, show_progress
from .scenario import Scenario, shipped_scenarios
from .settings import TrainingSettings
from .training import Training, TrainingData
from .version import __version__

__all__ = [
    "Callback",
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
    "make_policies",
    "make_policy",
    "read_channels",
    "report_to",
    "save_policy",
    "shipped_scenarios",
    "show_progress",
    "write_channels",
]
