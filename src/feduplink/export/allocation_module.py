"""A policy as one function of the CSI that can be traced: no checks, float32, any sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from feduplink.channels import denoised_csi
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.policies import NeuralPolicy, Policy, UnrolledPolicy
from feduplink.policies.base import silence


def allocation_module(policy: Policy) -> nn.Module:
    """The module (N, L, L) float32 to (N, L) float32 that does what ``policy.allocate`` does."""
    if isinstance(policy, UnrolledPolicy):
        return _UnrolledAllocation(policy)
    if isinstance(policy, NeuralPolicy):
        return _NeuralAllocation(policy)
    raise InputError(
        f"export: {policy.name} is a computation in Python, no network; accepted: pdg, pdm, pdx "
        "and network policies of your own."
    )


class _Allocation(nn.Module, ABC):
    """Powers within [0, Pmax], silent below the policy's threshold."""

    pmax_w: Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.silence_w = policy.silence_w
        # () or (L,); a buffer, because what is cached while a function is traced is no number.
        self.register_buffer("pmax_w", policy.scenario.pmax_w.float())

    def forward(self, csi: Tensor) -> Tensor:
        """Powers in W, (N, L, L) to (N, L)."""
        power = torch.minimum(self.powers(csi).clamp_min(0.0), self.pmax_w)
        return silence(power, self.silence_w)

    @abstractmethod
    def powers(self, csi: Tensor) -> Tensor:
        """What the policy says before limits are applied, (N, L, L) to (N, L), W."""


class _NeuralAllocation(_Allocation):
    def __init__(self, policy: NeuralPolicy) -> None:
        super().__init__(policy)
        self.policy = policy

    def powers(self, csi: Tensor) -> Tensor:
        return self.policy.powers(csi)


class _UnrolledAllocation(_Allocation):
    """``pdx`` with its multipliers: per worker for as many workers as it was made for, else means.

    Which of the two is chosen by the file at run time, because the number of workers is an input.
    """

    own_prices: Tensor
    mean_prices: Tensor
    static_power_w: Tensor

    def __init__(self, policy: UnrolledPolicy) -> None:
        super().__init__(policy)
        scenario = policy.scenario
        self.network, self.workers = policy.network, scenario.workers
        self.csi_noise = scenario.csi_noise
        self.waterfall = scenario.waterfall
        self.amplifier_inefficiency = scenario.amplifier_inefficiency
        self.register_buffer("static_power_w", scenario.static_power.float())
        own, others = (
            policy.prices(torch.ones(1, workers, workers)) for workers in (self.workers, 1)
        )
        own.check_usual(policy.name)
        self.register_buffer("own_prices", _stacked(own))
        # For another number of workers all have the same price.
        mean = _stacked(others if self.workers != 1 else own)
        self.register_buffer("mean_prices", mean[:, :1])

    def powers(self, csi: Tensor) -> Tensor:
        workers = torch.arange(csi.shape[-1], device=csi.device)
        for_all = torch.where(
            workers.max() + 1 == self.workers,
            self.own_prices[:, workers.clamp_max(self.workers - 1)],
            self.mean_prices,
        )
        seen = denoised_csi(csi, self.csi_noise)
        own = workers[:, None] == workers
        batch = ChannelBatch(
            direct=seen.diagonal(dim1=-2, dim2=-1),
            cross=torch.where(own, 0.0, seen),
            pmax_w=self.pmax_w,
            waterfall=self.waterfall,
            static_power_w=self.static_power_w,
            amplifier_inefficiency=self.amplifier_inefficiency,
        )
        return self.pmax_w * self.network.relative_power(batch, Prices(*for_all))


def _stacked(prices: Prices) -> Tensor:
    """Of success, rate, efficiency and being on the air, (4, L) float32."""
    usual = (prices.success, prices.rate, prices.efficiency, prices.activation_cost)
    return torch.stack(usual).float()
