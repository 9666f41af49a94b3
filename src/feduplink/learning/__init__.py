"""Primal–dual training: variables, step, loop, checkpoints, callbacks."""

from feduplink.learning.amortised import Curriculum, NetworkSettings, NetworkTraining
from feduplink.learning.callbacks import Callback, CsvLog, ProgressBar, TensorBoardLog
from feduplink.learning.history import Epoch, best_epoch
from feduplink.learning.settings import LEARNING_RATES, TrainingSettings
from feduplink.learning.training import TRAINABLE, Training, TrainingData, primal_dual_step

__all__ = [
    "LEARNING_RATES",
    "TRAINABLE",
    "Callback",
    "CsvLog",
    "Curriculum",
    "Epoch",
    "NetworkSettings",
    "NetworkTraining",
    "ProgressBar",
    "TensorBoardLog",
    "Training",
    "TrainingData",
    "TrainingSettings",
    "best_epoch",
    "primal_dual_step",
]
