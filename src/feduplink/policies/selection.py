"""One-shot worker selection after the powers are set, for policies blind to the constraints."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink import link
from feduplink.scenario import Scenario

#: Relative error of rates in single precision.
_ROUNDING = 1e-6


def select(power: Tensor, csi: Tensor, scenario: Scenario) -> Tensor:
    """Silence the workers whose rate or energy efficiency misses its threshold.

    Both are computed once, with all candidates on the air: a worker that is dropped does not
    give the others a second chance. (N, L) and (N, L, L) to (N, L), W.

    A power can be chosen to sit exactly on a threshold; rounding must not silence it.
    """
    share = 1 - _ROUNDING
    rate = link.rate(link.sinr(csi, power))
    efficiency = link.energy_efficiency(
        rate, power, scenario.static_power.to(power), scenario.amplifier_inefficiency
    )
    meets = (rate >= share * power.new_tensor(scenario.rate_min)) & (
        efficiency >= share * power.new_tensor(scenario.ee_min)
    )
    return torch.where(meets, power, 0.0)
