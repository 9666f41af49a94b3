"""Thresholds that a worker can never meet, whatever anybody does.

Silence meets every constraint, since these speak of the rounds in which a worker transmits. So the
problem always has a solution; but a worker may be shut out of it by its thresholds alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink import link
from feduplink.scenario import Scenario

_POWERS = 60
_MIXTURES = 41


@dataclass(frozen=True)
class Unreachable:
    """A worker that cannot transmit and meet its thresholds on any of the channels.

    Attributes:
        worker: counted from 1.
        constraint: ``rate``, ``energy_efficiency``, or ``both together``.
        best: the most it reaches alone on the air in its best channel; of the rate when both are
            meant.
        threshold: what it would have to reach.
    """

    worker: int
    constraint: str
    best: float
    threshold: float

    def __str__(self) -> str:
        if self.constraint == "both together":
            return (
                f"worker {self.worker}: each threshold can be met, but not both at once; even "
                "alone on the air it has to stay silent"
            )
        return (
            f"worker {self.worker}: {self.constraint} of {self.threshold:g} is out of reach; alone "
            f"on the air in its best channel it has {self.best:.4g}, "
            f"{1 - self.best / self.threshold:.0%} short"
        )


def unreachable(scenario: Scenario, csi: Tensor) -> list[Unreachable]:
    """Workers that no policy can let transmit on these channels, (N, L, L).

    Alone on the air a worker has its best rate and efficiency at every power. It can transmit iff
    a mixture of (channel, power) pairs meets both constraints in the mean, that is iff no weights
    θ, 1 − θ make the weighted relative surplus negative for all pairs.
    """
    direct = csi.diagonal(dim1=-2, dim2=-1).to("cpu", torch.float64)
    powers = scenario.pmax_w * torch.logspace(-8, 0, _POWERS, dtype=torch.float64)
    rate = link.rate(direct * powers[:, None, None])
    efficiency = link.energy_efficiency(
        rate, powers[:, None, None], scenario.static_power_w, scenario.amplifier_inefficiency
    )
    found = []
    for i in range(scenario.workers):
        r0, e0 = float(scenario.rate_thresholds[i]), float(scenario.ee_thresholds[i])
        best_rate, best_efficiency = float(rate[..., i].max()), float(efficiency[..., i].max())
        if best_rate < r0:
            found.append(Unreachable(i + 1, "rate", best_rate, r0))
        elif best_efficiency < e0:
            found.append(Unreachable(i + 1, "energy_efficiency", best_efficiency, e0))
        elif r0 > 0 and e0 > 0:
            surplus = torch.stack((rate[..., i] / r0 - 1, efficiency[..., i] / e0 - 1)).flatten(1)
            theta = torch.linspace(0, 1, _MIXTURES, dtype=torch.float64)
            mixtures = torch.stack((theta, 1 - theta), dim=1)
            if float((mixtures @ surplus).amax(1).min()) < 0:
                found.append(Unreachable(i + 1, "both together", best_rate, r0))
    return found
