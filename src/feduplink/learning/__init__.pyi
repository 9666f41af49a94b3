from .amortised import NetworkTraining
from .curriculum import AnyScenario, Curriculum, OneScenario
from .history import Epoch, best_epoch
from .logs import CsvLog, TensorBoardLog
from .network_settings import NetworkSettings
from .presets import Preset, preset_names, training_settings
from .settings import PresetName, TrainingSettings
from .training import Training, TrainingData, primal_dual_step
from .tuned_problems import TunedProblems

__all__ = [
    "AnyScenario",
    "CsvLog",
    "Curriculum",
    "Epoch",
    "NetworkSettings",
    "NetworkTraining",
    "OneScenario",
    "Preset",
    "PresetName",
    "TensorBoardLog",
    "Training",
    "TrainingData",
    "TrainingSettings",
    "TunedProblems",
    "best_epoch",
    "preset_names",
    "primal_dual_step",
    "training_settings",
]
