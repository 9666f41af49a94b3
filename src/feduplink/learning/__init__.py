"""Primal–dual training: variables, step, loop, checkpoints, logs."""

from feduplink.learning.amortised import NetworkSettings, NetworkTraining
from feduplink.learning.curriculum import AnyScenario, Curriculum, OneScenario
from feduplink.learning.history import Epoch, best_epoch
from feduplink.learning.logs import CsvLog, TensorBoardLog
from feduplink.learning.presets import Preset, PresetName, preset_names, training_settings
from feduplink.learning.settings import TrainingSettings
from feduplink.learning.training import Training, TrainingData, primal_dual_step
from feduplink.learning.tuned_problems import TunedProblems

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
