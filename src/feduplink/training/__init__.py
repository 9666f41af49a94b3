"""Primal–dual training: variables, step, loop, checkpoints, logs."""

from feduplink.training.curriculum import AnyScenario, Curriculum, OneScenario, TunedProblems
from feduplink.training.phase_network import PhaseCurriculum, PhaseSettings, train_phase_network
from feduplink.training.primal_dual import (
    Expectations,
    Preset,
    PrimalDualState,
    draw_subset,
    preset_names,
    subset_powers,
    training_settings,
)
from feduplink.training.trainer import Epoch, Training, TrainingData, best_epoch, primal_dual_step
from feduplink.training.unrolled import NetworkLoss, NetworkTraining, RecordedLosses

__all__ = [
    "AnyScenario",
    "Curriculum",
    "Epoch",
    "Expectations",
    "NetworkLoss",
    "NetworkTraining",
    "OneScenario",
    "PhaseCurriculum",
    "PhaseSettings",
    "Preset",
    "PrimalDualState",
    "RecordedLosses",
    "Training",
    "TrainingData",
    "TunedProblems",
    "best_epoch",
    "draw_subset",
    "preset_names",
    "primal_dual_step",
    "subset_powers",
    "train_phase_network",
    "training_settings",
]
