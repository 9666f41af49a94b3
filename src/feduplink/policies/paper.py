"""Neural policies of the paper: perceptron ``pdm`` and graph convolutional network ``pdg``."""

from __future__ import annotations

import itertools
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from feduplink.policies.base import NeuralPolicy
from feduplink.scenario import Scenario
from feduplink.settings import Architecture, GraphArchitecture

#: Widths of the hidden layers of the perceptron.
PERCEPTRON_HIDDEN = (128, 256, 64, 16, 8)


class PerceptronPolicy(NeuralPolicy):
    """Perceptron p(H) = Pmax · sigmoid(MLP([log10 vec(H), log10 Pmax])) for a fixed L.

    The input has L² gains in 1/W and Pmax in W, one value or one per worker.

    Args:
        scenario: the cell and its radio.
        architecture: settings of the network; None uses the defaults.

    >>> policy = PerceptronPolicy.initialised(Scenario(workers=2), seed=0)
    >>> policy.allocate(torch.ones(3, 2, 2)).shape
    torch.Size([3, 2])
    """

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
        """Number of workers of the scenario, which sets the width of the first layer."""
        return self.scenario.workers

    def powers(self, csi: Tensor) -> Tensor:
        """Pmax · sigmoid(MLP([log10 vec(H), log10 Pmax])), (N, L, L) to (N, L), W."""
        pmax = self.scenario.max_power.log10().to(csi).expand(csi.shape[0], self._pmax_inputs)
        inputs = torch.cat((csi.flatten(1).log10(), pmax), dim=1).to(self.dtype)
        return self.scenario.max_power.to(inputs) * torch.sigmoid(self.layers(inputs))


#: Widths of the hidden features of the graph network.
GRAPH_HIDDEN = (16, 32, 64, 16, 2)


def normalised_adjacency(csi: Tensor, *, transposed: bool = True) -> Tensor:
    """Symmetrically normalised adjacency matrix Ĥ = D^(−1/2) G D^(−1/2) with D = diag(G 1).

    With G = Hᵀ, worker i aggregates over the workers it interferes with, weighted by H_ji; this is
    a sparse ``GCNConv`` whose edges i → j have weights H_ij, as in the published code. With G = H,
    the formula of the paper, it aggregates over its interferers (see docs/paper-settings.md).
    Ĥ is invariant to a scaling of H and therefore carries no information on the noise level.

    Args:
        csi: CSI H, (..., L, L).
        transposed: whether G is Hᵀ instead of H.

    Returns:
        Ĥ, (..., L, L).

    >>> normalised_adjacency(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[1., 0.],
            [0., 1.]])
    """
    graph = csi.mT if transposed else csi
    scale = graph.sum(-1).rsqrt()
    return scale[..., :, None] * graph * scale[..., None, :]


class DenseGraphConvolution(nn.Module):
    """Graph convolution Z ↦ Ĥ Z Θ + b with a dense Ĥ.

    Equals a sparse ``GCNConv`` on a complete weighted graph. The formula of the paper has no bias.

    Args:
        fan_in: number of input features.
        fan_out: number of output features.
        bias: whether b is a parameter; otherwise b = 0.

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
        """Apply the layer to features (N, L, fan_in) and Ĥ (N, L, L); returns (N, L, fan_out)."""
        # Multiply by Ĥ where there are fewer features.
        if self.theta.shape[0] < self.theta.shape[1]:
            return functional.linear(adjacency @ features, self.theta.mT, self.bias)
        return torch.baddbmm(self.bias, adjacency, features @ self.theta)


class GraphPolicy(NeuralPolicy):
    """Graph convolutional network p(H) = Pmax · sigmoid(GCN(Ĥ)) for any number of workers.

    Six graph convolutions map Z_0 = Pmax · 1 to (N, L, 1), with ELU activations between them. The
    policy is permutation equivariant: reordered workers get reordered powers.

    Args:
        scenario: the cell and its radio.
        architecture: settings of the network; None uses the defaults.

    >>> policy = GraphPolicy.initialised(Scenario(workers=2), seed=0)
    >>> policy.allocate(torch.ones(3, 5, 5)).shape  # 5 workers instead of 2
    torch.Size([3, 5])
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
        # For large batches, allocating memory takes longer than the activation.
        in_place = not torch.is_grad_enabled()
        for layer in hidden:
            features = functional.elu(layer(features, adjacency), inplace=in_place)
        return pmax * torch.sigmoid(last(features, adjacency).squeeze(-1))
