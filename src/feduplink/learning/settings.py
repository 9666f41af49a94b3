"""How a training run of ``pdg`` or ``pdm`` goes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from feduplink.validated_model import ValidatedModel

#: Hyperparameters with a name, see :mod:`feduplink.learning.presets`.
PresetName = Literal["ours", "paper"]

#: Where the auxiliary variables r and e start: at the thresholds, or at what the first batch
#: reaches.
RequiredStart = Literal["thresholds", "first-batch"]


class TrainingSettings(ValidatedModel):
    """Hyperparameters of primal–dual learning; the defaults are ours for ``pdg``.

    ``presets`` has those of the paper beside ours, for both policies; docs/reproduction.md says
    in one table where the two and the authors' code differ, and why.
    """

    epochs: int = Field(
        default=1000, ge=1, le=10**6, description="most passes over the training set"
    )
    batch_size: int = Field(default=100, ge=1, le=10**6, description="channels in a batch")
    learning_rate: float = Field(
        default=5e-4, gt=0, le=1, description="Adam's step for the weights (pdm: 0.0001)"
    )
    primal_dual_step: float = Field(
        default=1e-3, gt=0, le=1, description="step of the auxiliary variables and the multipliers"
    )
    margin: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="share by which training aims above the thresholds: 1000 channels estimate "
        "a worker's expectation with a standard error of 1 to 2 %",
    )
    relative_units: bool = Field(
        default=True, description="divide each constraint by its threshold, so that all weigh alike"
    )
    required_start: RequiredStart = Field(
        default="thresholds", description="where the auxiliary variables r and e start"
    )
    weight_decay: float = Field(default=1e-6, ge=0, le=1, description="Adam's weight decay")
    clip_norm: float = Field(default=5.0, gt=0, le=1e6, description="largest norm of the gradient")
    patience: int = Field(
        default=1000,
        ge=1,
        le=10**6,
        description="epochs without improvement before stopping, counted "
        "from the first feasible one",
    )
    subset_workers: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="workers drawn at random for every batch, the others being silent; none: all "
        "(policies that take any number of workers only)",
    )
    fresh_channels: bool = Field(
        default=False, description="draw new training channels for every batch"
    )
    checkpoint_every: int = Field(
        default=20, ge=1, le=10**6, description="epochs between checkpoints"
    )
