"""One-shot worker selection after the powers are set, for policies blind to the constraints."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink import link
from feduplink.scenario import Scenario


def select(power: Tensor, csi: Tensor, scenario: Scenario) -> Tensor:
    """Silence the workers whose rate or energy efficiency misses its threshold.

    Both are computed once, with all candidates on the air: a worker that is dropped does not
    give the others a second chance. (N, L) and (N, L, L) to (N, L), W.
    """
    rate = link.rate(link.sinr(csi, power))
    efficiency = link.energy_efficiency(
        rate, power, scenario.static_power_w, scenario.amplifier_inefficiency
    )
    meets = (rate >= power.new_tensor(scenario.rate_min)) & (
        efficiency >= power.new_tensor(scenario.ee_min)
    )
    return torch.where(meets, power, 0.0)


def per_worker_thresholds(scenario: Scenario) -> int | None:
    """The number of workers the thresholds are given for; None if one value serves all."""
    listed = isinstance(scenario.rate_min, tuple) or isinstance(scenario.ee_min, tuple)
    return scenario.workers if listed else None
