"""Named hyperparameters: ours, and the equations as the paper writes them.

Where the paper gives no value, its preset has that of the authors' code. docs/reproduction.md
shows both beside each other with the reasons; a test keeps that table and this module the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from feduplink.learning.settings import PresetName, TrainingSettings
from feduplink.policies.architecture import Architecture
from feduplink.policies.base import NeuralPolicy

_PAPER_SETTINGS = TrainingSettings(
    learning_rate=1e-3,
    primal_dual_step=1e-4,
    margin=0.0,
    relative_units=False,
    required_start="first-batch",
    patience=100,
)


@dataclass(frozen=True)
class Preset:
    """How a policy is built and trained."""

    settings: TrainingSettings
    architecture: Architecture

    @classmethod
    def for_policy(cls, kind: type[NeuralPolicy], name: PresetName = "ours") -> Preset:
        """The preset of a name for a class of policies."""
        if name == "paper":
            return cls(_PAPER_SETTINGS, kind.architecture_type.as_published())
        settings = TrainingSettings(learning_rate=kind.learning_rate)
        return cls(settings, kind.architecture_type())


def preset_names() -> tuple[str, ...]:
    """Ours first."""
    return get_args(PresetName)


def training_settings(
    kind: type[NeuralPolicy], preset: PresetName = "ours", **changes: Any
) -> TrainingSettings:
    """The settings of a preset for a policy, with some fields changed and validated again."""
    settings = Preset.for_policy(kind, preset).settings
    return TrainingSettings(**{**settings.model_dump(), **changes})
