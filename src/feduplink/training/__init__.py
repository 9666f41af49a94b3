"""Training of policies: trainer, callbacks, learning algorithms, curricula and histories."""

from feduplink.training.curriculum import AnyScenario, Curriculum, OneScenario, TunedProblems
from feduplink.training.history import (
    Epoch,
    EpochRecord,
    History,
    NetworkEpoch,
    best_epoch,
)
from feduplink.training.one_cycle import OneCycleLearning
from feduplink.training.phase_network import PhaseCurriculum, ScheduleLearning
from feduplink.training.primal_dual import (
    Expectations,
    Preset,
    PrimalDualLearning,
    PrimalDualState,
    draw_subset,
    primal_dual_step,
    subset_powers,
)
from feduplink.training.trainer import (
    Checkpoint,
    EarlyStopping,
    LearningAlgorithm,
    Trainer,
    TrainingCallback,
    TrainingRequest,
    make_trainer,
)
from feduplink.training.unrolled import LagrangianLearning, NetworkLoss, RecordedLosses

__all__ = [
    "AnyScenario",
    "Checkpoint",
    "Curriculum",
    "EarlyStopping",
    "Epoch",
    "EpochRecord",
    "Expectations",
    "History",
    "LagrangianLearning",
    "LearningAlgorithm",
    "NetworkEpoch",
    "NetworkLoss",
    "OneCycleLearning",
    "OneScenario",
    "PhaseCurriculum",
    "Preset",
    "PrimalDualLearning",
    "PrimalDualState",
    "RecordedLosses",
    "ScheduleLearning",
    "Trainer",
    "TrainingCallback",
    "TrainingRequest",
    "TunedProblems",
    "best_epoch",
    "draw_subset",
    "make_trainer",
    "primal_dual_step",
    "subset_powers",
]
