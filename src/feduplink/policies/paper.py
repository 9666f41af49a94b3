"""The paper's networks: the perceptron ``pdm`` and the graph convolutional network ``pdg``."""

from __future__ import annotations

import itertools
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from feduplink.policies.base import NeuralPolicy
from feduplink.scenario import Scenario
from feduplink.settings import Architecture, GraphArchitecture

PERCEPTRON_HIDDEN = (128, 256, 64, 16, 8)


class PerceptronPolicy(NeuralPolicy):
    """Perceptron on log10 of the flattened H and Pmax (one or one per worker); L is fixed."""

    name = "pdm"
    summary = "the paper's perceptron, trained by primal-dual learning"
    colour, marker = "#E266BE", "P"
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
        pmax = self.scenario.max_power.log10().to(csi).expand(csi.shape[0], self._pmax_inputs)
        inputs = torch.cat((csi.flatten(1).log10(), pmax), dim=1).to(self.dtype)
        return self.scenario.max_power.to(inputs) * torch.sigmoid(self.layers(inputs))


GRAPH_HIDDEN = (16, 32, 64, 16, 2)


def normalised_adjacency(csi: Tensor, *, transposed: bool = True) -> Tensor:
    """Ĥ = D^(−1/2) G D^(−1/2) with D = diag(G 1) and G = Hᵀ, or H as the paper writes, (..., L, L).

    On Hᵀ worker i gathers from those it disturbs, H_ji, not from those that disturb it. On H the
    strongest worker of the cell dominates every row and the policy stays at full power
    (docs/paper-settings.md has the figures). A sparse ``GCNConv`` whose edges i → j carry H_ij, as
    in the published code, works on Hᵀ.

    Ĥ does not change when H is scaled: whoever sees only Ĥ is blind to the noise level.
    """
    graph = csi.mT if transposed else csi
    scale = graph.sum(-1).rsqrt()
    return scale[..., :, None] * graph * scale[..., None, :]


class DenseGraphConvolution(nn.Module):
    """Z ↦ Ĥ Z Θ + b on a complete weighted graph, as a dense product.

    Equal to a sparse ``GCNConv`` on the same graph, and faster: these graphs are small and
    complete. The bias, absent from the paper's formula and present in ``GCNConv``, lets a
    network fed with Pmax = 0.01 W leave the linear range of its activations; without it b stays 0.
    """

    bias: Tensor

    def __init__(self, fan_in: int, fan_out: int, *, bias: bool = True) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.empty(fan_in, fan_out))
        if bias:
            self.bias = nn.Parameter(torch.zeros(fan_out))
        else:
            self.register_buffer("bias", torch.zeros(fan_out), persistent=False)
        nn.init.xavier_uniform_(self.theta)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        """(N, L, fan_in) and (N, L, L) to (N, L, fan_out)."""
        # The product with Ĥ on the narrower side of Θ.
        if self.theta.shape[0] < self.theta.shape[1]:
            return functional.linear(adjacency @ features, self.theta.mT, self.bias)
        return torch.baddbmm(self.bias, adjacency, features @ self.theta)


class GraphPolicy(NeuralPolicy):
    """Six graph convolutions from Z0 = Pmax·1; ELU between, a scaled sigmoid last.

    Permutation equivariant, and for any number of workers.
    """

    name = "pdg"
    summary = "the paper's graph network, trained by primal-dual learning"
    colour, marker = "#006AAA", "o"
    architecture_type: ClassVar[type[Architecture]] = GraphArchitecture
    architecture: GraphArchitecture

    def __init__(self, scenario: Scenario, architecture: Architecture | None = None) -> None:
        super().__init__(scenario, architecture)
        widths = (1, *GRAPH_HIDDEN, 1)
        self.layers = nn.ModuleList(
            DenseGraphConvolution(fan_in, fan_out, bias=self.architecture.bias)
            for fan_in, fan_out in itertools.pairwise(widths)
        )

    def powers(self, csi: Tensor) -> Tensor:
        """Pmax · sigmoid(GCN(Ĥ)), (N, L, L) to (N, L), W."""
        graph = normalised_adjacency(csi, transposed=self.architecture.transposed_graph)
        adjacency = graph.to(self.dtype)
        pmax = self.scenario.max_power.to(adjacency)
        features = pmax.expand(csi.shape[:-1])[..., None]
        *hidden, last = self.layers
        # Memory for a second copy of large batches costs more than the activation.
        in_place = not torch.is_grad_enabled()
        for layer in hidden:
            features = functional.elu(layer(features, adjacency), inplace=in_place)
        return pmax * torch.sigmoid(last(features, adjacency).squeeze(-1))
