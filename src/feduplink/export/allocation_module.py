"""A policy as one function of the CSI that can be traced: no checks, float32, any sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from feduplink.channels import denoised_csi
from feduplink.errors import InputError
from feduplink.export.unrolled_graph import UnrolledGraph
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
    def __init__(self, policy: UnrolledPolicy) -> None:
        super().__init__(policy)
        self.csi_noise = policy.scenario.csi_noise
        self.network = UnrolledGraph(policy)

    def powers(self, csi: Tensor) -> Tensor:
        relative: Tensor = self.network(denoised_csi(csi, self.csi_noise))
        return self.pmax_w * relative
