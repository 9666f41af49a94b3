"""Primal–dual training: variables, step, loop, checkpoints, logs."""

from feduplink.learning.amortised import Curriculum, NetworkSettings, NetworkTraining
from feduplink.learning.history import Epoch, best_epoch
from feduplink.learning.logs import CsvLog, TensorBoardLog
from feduplink.learning.presets import PRESETS, Preset, training_settings
from feduplink.learning.settings import TrainingSettings
from feduplink.learning.training import TRAINABLE, Training, TrainingData, primal_dual_step

__all__ = [
    "PRESETS",
    "TRAINABLE",
    "CsvLog",
    "Curriculum",
    "Epoch",
    "NetworkSettings",
    "NetworkTraining",
    "Preset",
    "TensorBoardLog",
    "Training",
    "TrainingData",
    "TrainingSettings",
    "best_epoch",
    "primal_dual_step",
    "training_settings",
]
