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
from feduplink.policies.unrolled_network import UnrolledNetwork, lagrangian_at_gates

#: How much each iteration's output counts in the loss, the start first.
_DEPTH_WEIGHTS = (0.05, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0)


class NetworkLoss(nn.Module):
    """Minus the Lagrangian that the iterations reach, the later ones counting more.

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
    ) -> tuple[Tensor, Tensor]:
        """The loss, and the Lagrangian of the last iteration, scalars.

        The first four as in a :class:`ChannelBatch`; ``radio`` has the waterfall and the
        amplifier's inefficiency, (2,), ``prices`` those of success, rate, efficiency and of being
        on the air, (4, N, L).
        """
        waterfall, inefficiency = cast("tuple[float, float]", radio.unbind())
        batch = ChannelBatch(direct, cross, pmax_w, waterfall, static_power_w, inefficiency)
        success, rate, efficiency, activation_cost = prices.unbind()
        priced = Prices(success, rate, efficiency, activation_cost)
        reached = torch.stack(
            [lagrangian_at_gates(batch, priced, out).mean() for out in self.network(batch, priced)]
        )
        weights = [torch.full_like(reached[0], weight) for weight in _DEPTH_WEIGHTS]
        return -(torch.stack(weights) * reached).sum(), reached[-1].detach()


class RecordedLosses:
    """The loss of a network; on a GPU each number of workers is recorded when it first comes."""

    def __init__(self, network: UnrolledNetwork) -> None:
        self._loss = NetworkLoss(network)
        self._pool: Any = None
        self._recorded: dict[torch.Size, Callable[..., Any]] = {}

    def __call__(self, batch: ChannelBatch, prices: Prices) -> tuple[Tensor, Tensor]:
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
            loss, reached = self._loss(*tensors)
            return loss, reached
        size = batch.direct.shape
        if size not in self._recorded:
            # Recording replaces the module's forward, so every size has a module of its own
            # around the one network. All share their memory: one runs at a time.
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._recorded[size] = torch.cuda.make_graphed_callables(
                NetworkLoss(self._loss.network), tensors, pool=self._pool
            )
        loss, reached = self._recorded[size](*tensors)
        return loss, reached
