"""Putting a policy to the test: it sees the (noisy) CSI, the true channels decide."""

from __future__ import annotations

from torch import Tensor

from feduplink.channels.csi import check_csi, noisy_csi
from feduplink.policies.base import Policy
from feduplink.problem import Judgement, judge
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario


def evaluate(policy: Policy, csi: Tensor, scenario: Scenario, *, seed: int = 0) -> Judgement:
    """Judge ``policy`` on channels (N, L, L).

    The policy sees the CSI with the scenario's noise (variance ``csi_noise``, drawn from
    ``seed``); rates and errors are those of the true channels.
    """
    check_csi(csi, scenario.workers)
    seen = noisy_csi(csi, scenario.csi_noise, torch_generator(seed, "csi-noise"))
    return judge(policy.allocate(seen), csi, scenario)
