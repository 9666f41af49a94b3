"""How a learned network is built where the paper and we differ; saved with its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import Field

from feduplink.validated_model import ValidatedModel

if TYPE_CHECKING:
    from torch import Tensor

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
