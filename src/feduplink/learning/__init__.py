"""Primal–dual training: variables, step, loop, checkpoints, callbacks."""

from feduplink.learning.amortised import Curriculum, NetworkSettings, NetworkTraining
from feduplink.learning.callbacks import Callback, CsvLog, ProgressBar, TensorBoardLog
from feduplink.learning.history import Epoch, best_epoch
from feduplink.learning.presets import Preset, PresetName, preset_names, training_settings
from feduplink.learning.settings import TrainingSettings
from feduplink.learning.training import Training, TrainingData, primal_dual_step

__all__ = [
    "Callback",
    "CsvLog",
    "Curriculum",
    "Epoch",
    "NetworkSettings",
    "NetworkTraining",
    "Preset",
    "PresetName",
    "ProgressBar",
    "TensorBoardLog",
    "Training",
    "TrainingData",
    "TrainingSettings",
    "best_epoch",
    "preset_names",
    "primal_dual_step",
    "training_settings",
]
