from .claims import Claim
from .experiment_context import ExperimentContext
from .figures import EXPERIMENTS, Experiment, claims_from_csv
from .scale import FULL, QUICK, Scale

__all__ = [
    "EXPERIMENTS",
    "FULL",
    "QUICK",
    "Claim",
    "Experiment",
    "ExperimentContext",
    "Scale",
    "claims_from_csv",
]
