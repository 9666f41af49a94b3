from __future__ import annotations

import torch
from torch import Tensor, nn

from feduplink.channels import make_channels
from feduplink.policies import NeuralPolicy, PowerPolicy


class HalfPower(PowerPolicy):
    """A share of Pmax for everyone, tuned on the training channels."""

    name = "halfpower"
    colour, marker = "#123456", "d"

    def __init__(self, scenario, share: float = 0.5) -> None:
        super().__init__(scenario)
        self.share = share

    @classmethod
    def make(cls, scenario, context) -> HalfPower:
        channels = context.channels or make_channels(scenario, seed=context.seed)
        median = channels.training.diagonal(dim1=-2, dim2=-1).median()
        return cls(scenario, float(median / (median + median)))

    def powers(self, csi: Tensor) -> Tensor:
        return (self.share * self.scenario.max_power).to(csi).expand(csi.shape[:-1])

    def tensors(self) -> dict[str, Tensor]:
        return {"share": torch.tensor(self.share, dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, scenario, tensors: dict[str, Tensor]) -> HalfPower:
        return cls(scenario, float(tensors["share"]))


class TinyNetwork(NeuralPolicy):
    """A network of two numbers on the logarithm of the own gain."""

    name = "tinynet"
    learning_rate = 1e-2

    def __init__(self, scenario, architecture=None) -> None:
        super().__init__(scenario, architecture)
        self.layer = nn.Linear(1, 1)

    def powers(self, csi: Tensor) -> Tensor:
        gain = csi.diagonal(dim1=-2, dim2=-1).log()[..., None].to(self.dtype)
        return self.scenario.max_power.to(gain) * torch.sigmoid(self.layer(gain / 10))[..., 0]
