"""Workflows: one function per job, such as evaluation or training.

The command line, sweeps, experiments, the service and notebooks call these functions. Their
signatures declare the options (:mod:`feduplink.workflows.options`). Importing this package does not
import PyTorch.
"""

from feduplink.workflows.demonstration import Demonstration, demo
from feduplink.workflows.evaluation import Evaluation, Outcome, evaluate
from feduplink.workflows.exporting import export_policy
from feduplink.workflows.federation import FederatedComparison, federate
from feduplink.workflows.optimisation import OptimumResult, ProofCheck, check_proof, find_optimum
from feduplink.workflows.result import Result, load_result
from feduplink.workflows.scheduling import Front, FrontPoint, make_schedules
from feduplink.workflows.sweeps import Sweep, sweep
from feduplink.workflows.training import TrainingRun, train

__all__ = [
    "Demonstration",
    "Evaluation",
    "FederatedComparison",
    "Front",
    "FrontPoint",
    "OptimumResult",
    "Outcome",
    "ProofCheck",
    "Result",
    "Sweep",
    "TrainingRun",
    "check_proof",
    "demo",
    "evaluate",
    "export_policy",
    "federate",
    "find_optimum",
    "load_result",
    "make_schedules",
    "sweep",
    "train",
]
