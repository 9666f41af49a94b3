"""Putting a policy to the test: it sees the (noisy) CSI, the true channels decide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import torch
from torch import Tensor, nn

from feduplink.channels.csi import check_csi, noisy_csi
from feduplink.errors import InputError
from feduplink.judgement import Judgement, judge
from feduplink.link import Schedule
from feduplink.policies.base import Policy
from feduplink.problem import Problem
from feduplink.progress import track
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario
from feduplink.validation import usable_device


@track("evaluation")
def judge_policy(
    policy: Policy,
    csi: Tensor,
    scenario: Scenario,
    problem: Problem | None = None,
    *,
    seed: int = 0,
) -> Judgement:
    """Judge ``policy`` on channels (N, L, L), by ``problem`` or by the scenario's own.

    The policy sees the CSI with the scenario's noise (variance ``csi_noise``, drawn from
    ``seed``); rates and errors are those of the true channels.
    """
    return judge(
        scenario,
        csi,
        allocate_from_noisy_csi(policy, csi, scenario, seed=seed),
        problem=problem,
    )


def allocate_from_noisy_csi(
    policy: Policy,
    csi: Tensor,
    scenario: Scenario,
    *,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> Tensor | Schedule:
    """Powers (N, L) in W or schedules that a policy decides from noisy CSI of channels (N, L, L).

    They are computed on ``device``, by default where the channels are, and come back to these. A
    policy that is a module is moved there meanwhile, others compute where their channels are.

    A policy made for another scenario may have another Pmax; the one of ``scenario`` holds. In
    float64, because a rounded Pmax may exceed it, and the objective with it the optimum.
    """
    check_csi(csi, scenario.workers)
    if policy.is_lossless or policy.has_state:
        lacks = "has no powers to judge" if policy.is_lossless else "needs feedback round by round"
        raise InputError(f"policies: {policy.name} {lacks}; accepted in federations only.")
    there = csi.device if device is None else usable_device(device)
    seen = noisy_csi(csi, scenario.csi_noise, torch_generator(seed, "csi-noise")).to(there)
    with _moved(policy, there):
        decided = policy.step(seen)
    if isinstance(decided, Schedule):
        return decided.to(csi.device).limited(scenario.pmax_w)
    power = decided.to(csi.device, torch.float64)
    return torch.minimum(power, scenario.pmax_w.to(power))


@contextmanager
def _moved(policy: Policy, device: torch.device) -> Iterator[None]:
    """While entered, a policy that is a module is on the device."""
    if not isinstance(policy, nn.Module):
        yield
        return
    home = next((t.device for t in chain(policy.parameters(), policy.buffers())), device)
    policy.to(device)
    try:
        yield
    finally:
        policy.to(home)
