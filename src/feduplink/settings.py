"""Settings of training, networks and federations. Nothing here imports PyTorch, so that options of
commands are listed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from feduplink.validation import ValidatedModel

if TYPE_CHECKING:
    from torch import Tensor

#: Hyperparameters with a name, see :mod:`feduplink.training.primal_dual`.
PresetName = Literal["ours", "paper"]

#: Where the auxiliary variables r and e start: at the thresholds, or at what the first batch
#: reaches.
RequiredStart = Literal["thresholds", "first-batch"]


class TrainingSettings(ValidatedModel):
    """Hyperparameters of primal–dual learning; the defaults are ours for ``pdg``.

    ``presets`` has those of the paper beside ours, for both policies; docs/paper-settings.md says
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


class NetworkSettings(ValidatedModel):
    """Hyperparameters of the network's training; the defaults suit one scenario on a CPU."""

    steps: int = Field(default=1500, ge=100, le=10**7, description="batches of fresh channels")
    batch_size: int = Field(default=128, ge=1, le=10**6, description="channels in a batch")
    learning_rate: float = Field(default=2e-3, gt=0, le=1, description="AdamW's largest step")


#: A power below this is zero: the worker stays silent, W.
SILENCE_W = 1e-10
_PUBLISHED_SILENCE_W = 1e-20

_PREFIX = "architecture."


class Architecture(ValidatedModel):
    """What holds for every network."""

    silence_w: float = Field(
        default=SILENCE_W,
        gt=0,
        le=1e-3,
        description="powers of pdg and pdm below this are zero, W",
    )

    @classmethod
    def as_published(cls) -> Self:
        """As the paper and the authors' code have it."""
        return cls(silence_w=_PUBLISHED_SILENCE_W)

    def tensors(self) -> dict[str, Tensor]:
        """The fields as scalars named ``architecture.*``, to be saved beside the weights."""
        return {f"{_PREFIX}{name}": _scalar(value) for name, value in self.model_dump().items()}

    @classmethod
    def split(cls, tensors: dict[str, Tensor]) -> tuple[Self, dict[str, Tensor]]:
        """Inverse of :meth:`tensors`: the architecture, and the tensors that are not of it."""
        fields = {
            name.removeprefix(_PREFIX): value.item()
            for name, value in tensors.items()
            if name.startswith(_PREFIX)
        }
        weights = {name: t for name, t in tensors.items() if not name.startswith(_PREFIX)}
        return cls(**fields), weights


class GraphArchitecture(Architecture):
    """What holds for a graph convolutional network."""

    transposed_graph: bool = Field(
        default=True,
        description="pdg gathers over Hᵀ, from those a worker disturbs, instead of over H",
    )
    bias: bool = Field(default=True, description="pdg's layers have a bias")

    @classmethod
    def as_published(cls) -> Self:
        """As the paper and the authors' code have it."""
        return cls(silence_w=_PUBLISHED_SILENCE_W, transposed_graph=False, bias=False)


def _scalar(value: float | bool) -> Tensor:
    import torch  # not for the options of a command

    return torch.tensor(value, dtype=torch.bool if isinstance(value, bool) else torch.float64)


#: How images are spread over the workers: alike, with pixel noise, or with skewed labels.
Partition = Literal["iid", "gaussian", "dirichlet"]

#: Which SINR decides whether an upload arrives: that of the full set of senders, the least of the
#: round, as in the paper; or that of every phase, each weighing as many bits as are sent in it.
PacketSuccess = Literal["worst-phase", "every-phase"]


#: Channels in each of the three sets, unless asked otherwise.
CHANNELS_PER_SPLIT = 1000

#: Channels to learn from, to choose by and to report on.
PARTS = ("training", "validation", "test")
