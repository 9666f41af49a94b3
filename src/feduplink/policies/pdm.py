"""``pdm``: the paper's multi-layer perceptron."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

from feduplink.policies.architecture import Architecture
from feduplink.policies.base import NeuralPolicy
from feduplink.scenario import Scenario

HIDDEN = (128, 256, 64, 16, 8)


class PerceptronPolicy(NeuralPolicy):
    """Perceptron on log10 of the flattened H and Pmax; one number of workers only."""

    name = "pdm"

    def __init__(self, scenario: Scenario, architecture: Architecture | None = None) -> None:
        super().__init__(scenario, architecture)
        widths = (scenario.workers**2 + 1, *HIDDEN)
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), nn.LeakyReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(HIDDEN[-1], scenario.workers))

    @property
    def fixed_workers(self) -> int | None:
        """The number of workers the first layer was made for."""
        return self.scenario.workers

    def powers(self, csi: Tensor) -> Tensor:
        """Pmax · sigmoid(MLP([log10 H, log10 Pmax])), (N, L, L) to (N, L), W."""
        pmax = csi.new_full((len(csi), 1), math.log10(self.scenario.pmax_w))
        inputs = torch.cat((csi.flatten(1).log10(), pmax), dim=1).to(self.dtype)
        return self.scenario.pmax_w * torch.sigmoid(self.layers(inputs))
