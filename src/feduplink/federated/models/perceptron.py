"""The paper's feed-forward network: one hidden layer of tanh units."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from feduplink.federated.models.stacked import Weights


class Perceptron(nn.Module):
    """x ↦ W2 tanh(W1 x + b1) + b2."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, inputs) to (B, outputs)."""
        outputs: Tensor = self.output(torch.tanh(self.hidden(inputs)))
        return outputs

    def stacked_forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """(R, B, inputs) to (R, B, outputs): two batched products.

        The weights stand on the left, so that their gradients come out in their own layout; on
        the right they would have to be transposed, which costs as much as the product.
        """
        weight, bias = weights["hidden.weight"], weights["hidden.bias"]
        if inputs.stride(0) == 0:  # expanded: all copies see the same examples, in one product
            rows = torch.addmm(bias.reshape(-1, 1), weight.flatten(0, 1), inputs[0].mT)
            hidden = rows.tanh_().view(*bias.shape, -1)
        else:
            hidden = torch.baddbmm(bias[..., None], weight, inputs.mT).tanh()
        return torch.baddbmm(weights["output.bias"][..., None], weights["output.weight"], hidden).mT


@torch.no_grad()
def nguyen_widrow_(network: Perceptron) -> Perceptron:
    """Nguyen–Widrow weights, in place: the active ranges of the units cover the input evenly.

    Each row of W is a random direction of length 0.7 n^(1/m), for m inputs and n units, and the
    biases b_j = ±0.7 n^(1/m) are spread evenly over the range; the hidden layer is scaled by 2,
    the half-width of tanh's active range.
    """
    for layer, active in ((network.hidden, 2.0), (network.output, 1.0)):
        length = 0.7 * layer.out_features ** (1 / layer.in_features)
        direction = nn.functional.normalize(2 * torch.rand_like(layer.weight) - 1, dim=1)
        layer.weight.copy_(active * length * direction)
        spread = torch.linspace(-1, 1, layer.out_features)
        layer.bias.copy_(active * length * spread * direction[:, 0].sign())
    return network
