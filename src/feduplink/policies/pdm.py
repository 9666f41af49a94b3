"""``pdm``: the paper's multi-layer perceptron."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from feduplink.policies.architecture import Architecture
from feduplink.policies.base import NeuralPolicy
from feduplink.scenario import Scenario

PERCEPTRON_HIDDEN = (128, 256, 64, 16, 8)


class PerceptronPolicy(NeuralPolicy):
    """Perceptron on log10 of the flattened H and Pmax (one or one per worker); L is fixed."""

    name = "pdm"
    summary = "the paper's perceptron, trained by primal-dual learning"
    colour, marker = "#CC79A7", "P"
    learning_rate = 1e-4

    def __init__(self, scenario: Scenario, architecture: Architecture | None = None) -> None:
        super().__init__(scenario, architecture)
        self._pmax_inputs = scenario.listed_per_worker("pmax_dbw") or 1
        widths = (scenario.workers**2 + self._pmax_inputs, *PERCEPTRON_HIDDEN)
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), nn.LeakyReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(PERCEPTRON_HIDDEN[-1], scenario.workers))

    @property
    def fixed_workers(self) -> int | None:
        """The number of workers the first layer was made for."""
        return self.scenario.workers

    def powers(self, csi: Tensor) -> Tensor:
        """Pmax · sigmoid(MLP([log10 H, log10 Pmax])), (N, L, L) to (N, L), W."""
        pmax = self.scenario.pmax_w.log10().to(csi).expand(csi.shape[0], self._pmax_inputs)
        inputs = torch.cat((csi.flatten(1).log10(), pmax), dim=1).to(self.dtype)
        return self.scenario.pmax_w.to(inputs) * torch.sigmoid(self.layers(inputs))
