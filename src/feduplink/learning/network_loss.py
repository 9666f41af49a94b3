"""What the training of ``pdx`` minimises, and the same recorded once per number of workers.

A step is some thousand small kernels, and starting them takes a GPU's host four times as long as
computing them. CUDA graphs start them all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.policies.unrolled_network import (
    UnrolledNetwork,
    better_end,
    lagrangian_at_gates,
    price_unit,
)

#: How much each iteration's output counts in the loss, the start first.
_DEPTH_WEIGHTS = (0.05, 0.1, 0.2, 0.35, 0.6, 1.0)
#: How much the mean of both starts counts beside the better one: none is to be given up.
_EITHER = 0.2
#: Lagrangians count as they are, in units of the workers' weights, but those at higher prices than
#: this no more than at such prices.
_HIGHEST_UNIT = 8.0


class NetworkLoss(nn.Module):
    """Minus the Lagrangian that the iterations reach from the better start, later ones count more.

    A function of tensors alone: a number would become part of a recorded graph.
    """

    def __init__(self, network: UnrolledNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        direct: Tensor,
        cross: Tensor,
        pmax_w: Tensor,
        static_power_w: Tensor,
        radio: Tensor,
        prices: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, the Lagrangian of the last iteration, scalars, and its powers (N, L) in W.

        The first four as in a :class:`ChannelBatch`; ``radio`` has the waterfall and the
        amplifier's inefficiency, (2,), ``prices`` those of success, rate, efficiency and of being
        on the air, (4, N, L).
        """
        waterfall, inefficiency = cast("tuple[float, float]", radio.unbind())
        batch = ChannelBatch(direct, cross, pmax_w, waterfall, static_power_w, inefficiency)
        success, rate, efficiency, activation_cost = prices.unbind()
        priced = Prices(success, rate, efficiency, activation_cost)
        outputs = self.network(batch, priced)
        workers = direct.shape[-1]
        unit = (workers * price_unit(priced, static_power_w)).clamp_max(_HIGHEST_UNIT)
        reached = []
        for output in outputs:
            ends = unit * lagrangian_at_gates(batch, priced, output)
            reached.append(((1 - _EITHER) * ends.amax(0) + _EITHER * ends.mean(0)).mean())
        weighted = [weight * value for weight, value in zip(_DEPTH_WEIGHTS, reached, strict=True)]
        with torch.no_grad():
            power = pmax_w * better_end(batch, priced, outputs[-1])
        return -torch.stack(weighted).sum(), reached[-1].detach(), power


class RecordedLosses:
    """The loss of a network; on a GPU each number of workers is recorded when it first comes."""

    def __init__(self, network: UnrolledNetwork) -> None:
        self._loss = NetworkLoss(network)
        self._pool: Any = None
        self._recorded: dict[torch.Size, Callable[..., Any]] = {}

    def __call__(self, batch: ChannelBatch, prices: Prices) -> tuple[Tensor, Tensor, Tensor]:
        """As :class:`NetworkLoss`, for a batch in float32 and prices (N, L)."""
        tensors = (
            batch.direct,
            batch.cross,
            batch.pmax_w,
            batch.static_power_w,
            batch.direct.new_tensor([batch.waterfall, batch.amplifier_inefficiency]),
            torch.stack((prices.success, prices.rate, prices.efficiency, prices.activation_cost)),
        )
        if not batch.direct.is_cuda:
            loss, reached, power = self._loss(*tensors)
            return loss, reached, power
        size = batch.direct.shape
        if size not in self._recorded:
            # Recording replaces the module's forward, so every size has a module of its own
            # around the one network. All share their memory: one runs at a time.
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._recorded[size] = torch.cuda.make_graphed_callables(
                NetworkLoss(self._loss.network), tensors, pool=self._pool
            )
        loss, reached, power = self._recorded[size](*tensors)
        # What was recorded passes for differentiable as a whole.
        return loss, reached.detach(), power.detach()
