"""Memory of policies on many channels."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor

from feduplink import Scenario, draw_csi
from feduplink.policies import (
    GraphPolicy,
    PerceptronPolicy,
    PowerPolicy,
    make_policy,
    shipped_pdx,
)

MOST_BYTES = 3e9
#: ``dual`` is slower; its memory is that of a chunk.
COUNTS = {"dual": 40_000}
NAMES = ("rand", "orth", "max", "openloop", "pdm", "pdg", "pdx", "dual")


def made(name: str) -> PowerPolicy:
    scenario = Scenario()
    if name in ("pdm", "pdg"):
        kind = GraphPolicy if name == "pdg" else PerceptronPolicy
        return kind.initialised(scenario)
    if name == "pdx":
        return shipped_pdx()
    few = draw_csi(scenario, 50, torch.Generator().manual_seed(0))
    return make_policy(name, scenario, channels=few)


class Counted(PowerPolicy):
    """As much power as the own gain has, up to Pmax; counts the channels it is given at once."""

    name = "counted"

    def powers(self, csi: Tensor) -> Tensor:
        self.sizes = [*getattr(self, "sizes", ()), len(csi)]
        return csi.diagonal(dim1=-2, dim2=-1)


def test_many_channels_are_given_to_a_policy_in_chunks():
    gains = torch.rand(5, 20, 1000, 8, 8, generator=torch.Generator().manual_seed(1))
    csi = (gains / 50).clamp_min(1e-6)
    policy = Counted(Scenario())
    power = policy.allocate(csi)
    assert max(policy.sizes) * 8 * 8 <= 1 << 21  # gains, 8 MB
    assert sum(policy.sizes) == 5 * 20 * 1000
    expected = csi.diagonal(dim1=-2, dim2=-1).clamp_max(Scenario().max_power)
    torch.testing.assert_close(power, expected)


@pytest.mark.parametrize("name", NAMES)
def test_powers_do_not_depend_on_the_chunks(name: str):
    csi = draw_csi(Scenario(), 50, torch.Generator().manual_seed(1))
    policy = made(name)
    again = made(name)  # one that draws starts anew
    parts = torch.cat([again.allocate(part) for part in csi.split(16)])
    torch.testing.assert_close(parts, policy.allocate(csi), rtol=1e-5, atol=1e-9)


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
