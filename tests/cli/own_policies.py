"""Policies as a user would write them, given on the command line as ``cli.own_policies:Class``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from feduplink.channels import make_channels
from feduplink.policies import NeuralPolicy, PowerPolicy
from feduplink.scenario import Scenario


class Half(PowerPolicy):
    """Half of Pmax, always."""

    name = "half"

    def powers(self, csi: Tensor) -> Tensor:
        return (self.scenario.max_power.to(csi) / 2).expand(csi.shape[:-1])


class Median(PowerPolicy):
    """Full power for direct gains over the median of the training channels."""

    name = "median"

    def __init__(self, scenario: Scenario, median: float) -> None:
        super().__init__(scenario)
        self.median = median

    @classmethod
    def make(cls, scenario, context) -> Median:
        channels = context.channels or make_channels(scenario, seed=context.seed)
        return cls(scenario, float(channels.training.diagonal(dim1=-2, dim2=-1).median()))

    def powers(self, csi: Tensor) -> Tensor:
        good = csi.diagonal(dim1=-2, dim2=-1) > self.median
        return torch.where(good, self.scenario.max_power.to(csi), 0.0)


class Constant(NeuralPolicy):
    """One learned share of Pmax for everyone."""

    name = "constant"

    def __init__(self, scenario: Scenario, architecture: object = None) -> None:
        super().__init__(scenario)
        self.logit = nn.Parameter(torch.zeros(()))

    def powers(self, csi: Tensor) -> Tensor:
        share = torch.sigmoid(self.logit)
        return (share * self.scenario.max_power.to(csi)).expand(csi.shape[:-1])
