"""``pdg``: the paper's graph convolutional network."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from feduplink.policies.base import NeuralPolicy
from feduplink.scenario import Scenario

HIDDEN = (16, 32, 64, 16, 2)


def normalised_adjacency(csi: Tensor) -> Tensor:
    """Ĥ = D^(−1/2) Hᵀ D^(−1/2) with D = diag(Hᵀ 1), (..., L, L).

    Worker i gathers from those it disturbs, H_ji, not from those that disturb it. The paper
    writes H; on that graph the strongest worker of the cell dominates every row and the policy
    stays at full power (docs/reproduction.md has the figures). A sparse ``GCNConv`` whose edges
    i → j carry H_ij, as in the published code, computes what is written here.

    Ĥ does not change when H is scaled: whoever sees only Ĥ is blind to the noise level.
    """
    caused = csi.mT
    scale = caused.sum(-1).rsqrt()
    return scale[..., :, None] * caused * scale[..., None, :]


class DenseGraphConvolution(nn.Module):
    """Z ↦ Ĥ Z Θ + b on a complete weighted graph, as a dense product.

    Equal to a sparse ``GCNConv`` on the same graph, and faster: these graphs are small and
    complete. The bias, absent from the paper's formula and present in ``GCNConv``, lets a
    network fed with Pmax = 0.01 W leave the linear range of its activations.
    """

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.empty(fan_in, fan_out))
        self.bias = nn.Parameter(torch.zeros(fan_out))
        nn.init.xavier_uniform_(self.theta)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        """(N, L, fan_in) and (N, L, L) to (N, L, fan_out)."""
        fan_in, fan_out = self.theta.shape
        if fan_in < fan_out:  # aggregate on the narrow side
            return functional.linear(adjacency @ features, self.theta.mT, self.bias)
        return torch.baddbmm(self.bias, adjacency, features @ self.theta)


class GraphPolicy(NeuralPolicy):
    """Six graph convolutions from Z0 = Pmax·1; ELU between, a scaled sigmoid last.

    Permutation equivariant, and for any number of workers.
    """

    name = "pdg"

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        widths = (1, *HIDDEN, 1)
        self.layers = nn.ModuleList(
            DenseGraphConvolution(fan_in, fan_out) for fan_in, fan_out in itertools.pairwise(widths)
        )

    def powers(self, csi: Tensor) -> Tensor:
        """Pmax · sigmoid(GCN(Ĥ)), (N, L, L) to (N, L), W."""
        adjacency = normalised_adjacency(csi).to(self.dtype)
        features = adjacency.new_full((*csi.shape[:-1], 1), self.scenario.pmax_w)
        for layer in self.layers[:-1]:
            features = functional.elu(layer(features, adjacency))
        logits = self.layers[-1](features, adjacency)[..., 0]
        return self.scenario.pmax_w * torch.sigmoid(logits)
