"""Settings of training, networks and federations.

Importing this module does not import PyTorch: the command line reads the settings for its options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from feduplink.validation import ValidatedModel

if TYPE_CHECKING:
    from torch import Tensor

#: Name of a set of hyperparameters, see :class:`feduplink.training.Preset`.
PresetName = Literal["ours", "paper"]

#: Initial auxiliary variables r and e: the thresholds, or the estimates of the first batch.
RequiredStart = Literal["thresholds", "first-batch"]


class TrainingSettings(ValidatedModel):
    """Hyperparameters of primal–dual learning; the defaults are those of ``pdg``.

    Fields are validated and immutable; ``replace`` returns a changed copy. Each field's description
    states its meaning. :class:`~feduplink.training.Preset` contains the defaults and the values of
    the paper for ``pdm`` and ``pdg``; docs/paper-settings.md compares them.

    >>> import feduplink as fu
    >>> settings = fu.TrainingSettings(epochs=100)
    >>> settings.epochs, settings.replace(batch_size=50).batch_size
    (100, 50)
    """

    epochs: int = Field(
        default=1000, ge=1, le=10**6, description="Largest number of passes over the training set"
    )
    batch_size: int = Field(
        default=100, ge=1, le=10**6, description="Number of channels in a batch"
    )
    learning_rate: float = Field(
        default=5e-4, gt=0, le=1, description="Learning rate of Adam for the weights (pdm: 0.0001)"
    )
    primal_dual_step: float = Field(
        default=1e-3,
        gt=0,
        le=1,
        description="Step size of the auxiliary variables and the multipliers",
    )
    margin: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Relative margin that training adds to the thresholds: 1000 channels estimate "
        "a worker's expectation with a standard error of 1 to 2 %",
    )
    relative_units: bool = Field(
        default=True,
        description="Divide each constraint by its threshold, so that all have the same scale",
    )
    required_start: RequiredStart = Field(
        default="thresholds", description="Initial values of the auxiliary variables r and e"
    )
    weight_decay: float = Field(default=1e-6, ge=0, le=1, description="Weight decay of Adam")
    clip_norm: float = Field(default=5.0, gt=0, le=1e6, description="Largest norm of the gradient")
    patience: int = Field(
        default=1000,
        ge=1,
        le=10**6,
        description="Number of epochs without a better one before training stops, counted from the "
        "first feasible epoch",
    )
    subset_workers: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Number of workers drawn to transmit in each batch; none: all (only for "
        "policies that take any number of workers)",
    )
    fresh_channels: bool = Field(
        default=False, description="Draw new training channels for every batch"
    )
    checkpoint_every: int = Field(
        default=20, ge=1, le=10**6, description="Number of epochs between checkpoints"
    )


class OneCycleSettings(ValidatedModel):
    """Hyperparameters of training on fresh batches with a one-cycle learning rate."""

    steps: int = Field(
        default=1500, ge=100, le=10**7, description="Number of batches of fresh channels"
    )
    batch_size: int = Field(
        default=128, ge=1, le=10**6, description="Number of channels in a batch"
    )
    learning_rate: float = Field(
        default=2e-3, gt=0, le=1, description="Largest learning rate of AdamW"
    )


class NetworkSettings(OneCycleSettings):
    """Hyperparameters of the network of ``pdx``; the defaults suit one scenario on a CPU."""

    everything: bool = Field(
        default=False,
        description="Train for random cells, radios, objectives, weights and thresholds, as the "
        "shipped weights were; the scenario then only sets the multipliers",
    )


class PhaseSettings(OneCycleSettings):
    """Hyperparameters of the network of learned schedules."""

    steps: int = Field(
        default=2000, ge=100, le=10**7, description="Number of batches of fresh channels"
    )
    batch_size: int = Field(
        default=64, ge=1, le=10**6, description="Number of channels of 8 workers in a batch"
    )
    learning_rate: float = Field(
        default=8e-4, gt=0, le=1, description="Largest learning rate of AdamW"
    )


#: Power below which a worker is silent, W.
SILENCE_W = 1e-10
_PUBLISHED_SILENCE_W = 1e-20

_PREFIX = "architecture."


class Architecture(ValidatedModel):
    """Architecture common to the networks of the paper."""

    silence_w: float = Field(
        default=SILENCE_W,
        gt=0,
        le=1e-3,
        description="Power of pdg and pdm below which a worker is silent, W",
    )

    @classmethod
    def as_published(cls) -> Self:
        """Architecture of the paper and the authors' code."""
        return cls(silence_w=_PUBLISHED_SILENCE_W)

    def tensors(self) -> dict[str, Tensor]:
        """The fields as scalar tensors named ``architecture.*``, to be saved with the weights."""
        return {f"{_PREFIX}{name}": _scalar(value) for name, value in self.model_dump().items()}

    @classmethod
    def split(cls, tensors: dict[str, Tensor]) -> tuple[Self, dict[str, Tensor]]:
        """Inverse of :meth:`tensors`.

        Args:
            tensors: weights, and scalars named ``architecture.*``, by name.

        Returns:
            The architecture, and the weights by name.
        """
        fields = {
            name.removeprefix(_PREFIX): value.item()
            for name, value in tensors.items()
            if name.startswith(_PREFIX)
        }
        weights = {name: t for name, t in tensors.items() if not name.startswith(_PREFIX)}
        return cls(**fields), weights


class GraphArchitecture(Architecture):
    """Architecture of a graph convolutional network."""

    transposed_graph: bool = Field(
        default=True,
        description="Aggregate over Hᵀ, from the workers that a worker interferes with, instead of "
        "over H (pdg)",
    )
    bias: bool = Field(default=True, description="Add a bias to the graph convolutions (pdg)")

    @classmethod
    def as_published(cls) -> Self:
        """Architecture of the paper and the authors' code."""
        return cls(silence_w=_PUBLISHED_SILENCE_W, transposed_graph=False, bias=False)


def _scalar(value: float | bool) -> Tensor:
    """A number as a scalar tensor: bool, or float64."""
    import torch  # imported here, so that importing the settings does not import PyTorch

    return torch.tensor(value, dtype=torch.bool if isinstance(value, bool) else torch.float64)


#: Distribution of images over the workers: i.i.d., with pixel noise, or with skewed labels.
Partition = Literal["iid", "gaussian", "dirichlet"]

#: SINR at which the success probability of an upload is evaluated: the lowest SINR of the round, as
#: in the paper, or a mean over the phases weighted by the bits sent, see
#: :mod:`feduplink.link.arrivals`.
ArrivalRule = Literal["worst-phase", "every-phase"]


#: Default number of channels in each split.
CHANNELS_PER_SPLIT = 1000

#: Maximum number of drawn channels for a verdict on the constraints.
MAX_VERDICT_CHANNELS = 50_000

#: Names of the splits of a set of channels.
PARTS = ("training", "validation", "test")
