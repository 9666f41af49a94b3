"""Memory of policies on many channels."""

from __future__ import annotations

import os

import pytest
import torch

from feduplink import Scenario, draw_csi
from feduplink.policies import (
    GraphPolicy,
    PerceptronPolicy,
    Policy,
    base,
    make_policy,
    shipped_pdx,
)

MOST_BYTES = 3e9
#: ``dual`` is slower; its memory is that of a chunk.
COUNTS = {"dual": 40_000}
NAMES = ("rand", "orth", "max", "openloop", "pdm", "pdg", "pdx", "dual")


def made(name: str) -> Policy:
    scenario = Scenario()
    if name in ("pdm", "pdg"):
        kind = GraphPolicy if name == "pdg" else PerceptronPolicy
        return kind.initialised(scenario)
    if name == "pdx":
        return shipped_pdx()
    few = draw_csi(scenario, 50, torch.Generator().manual_seed(0))
    return make_policy(name, scenario, channels=few)


def test_policies_compute_in_chunks_with_the_same_powers(monkeypatch: pytest.MonkeyPatch):

    csi = draw_csi(Scenario(), 50, torch.Generator().manual_seed(1))
    for name in NAMES:
        whole = made(name).allocate(csi)
        policy, sizes = made(name), []
        powers = policy.powers

        def counted(part, powers=powers, sizes=sizes):
            sizes.append(len(part))
            return powers(part)

        with monkeypatch.context() as patch:
            patch.setattr(base, "_GAINS_AT_ONCE", 16 * 64)
            patch.setattr(policy, "powers", counted)
            parts = policy.allocate(csi)
        assert sizes == [16, 16, 16, 2], name
        torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-9, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_million_channels_take_less_than_3_gb(name: str):
    policy, count = made(name), COUNTS.get(name, 10**6)
    if (pid := os.fork()) == 0:  # measures the memory of this policy alone
        status = 1
        try:
            csi = draw_csi(Scenario(), 1000, torch.Generator().manual_seed(0))
            power = policy.allocate(csi.repeat(count // 1000, 1, 1))
            status = int(power.shape != (count, 8))
        finally:
            os._exit(status)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    used = usage.ru_maxrss * 1024
    print(f"{name}: {count} channels, {used / 1e9:.2f} GB, {usage.ru_utime:.0f} s")
    assert used < MOST_BYTES
