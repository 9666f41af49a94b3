"""One-shot worker selection after the powers are set, for policies blind to the constraints."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from feduplink import link
from feduplink.policies.base import Policy
from feduplink.problem import Problem
from feduplink.scenario import Scenario

#: Relative error of rates in single precision.
_ROUNDING = 1e-6


class SelectingPolicy(Policy):
    """A policy that sets powers without a look at the constraints, then selects workers."""

    #: Whether workers that miss a threshold are silenced.
    selects: ClassVar[bool] = True

    @property
    def fixed_workers(self) -> int | None:
        """Bound to the scenario's size only by constants or thresholds listed per worker."""
        return super().fixed_workers or self.scenario.listed_per_worker("rate_min", "ee_min")

    def powers(self, csi: Tensor) -> Tensor:
        """Powers of the selected workers, (N, L, L) to (N, L), W."""
        power = self.candidate_powers(csi)
        return select(power, csi, self.scenario) if self.selects else power

    @abstractmethod
    def candidate_powers(self, csi: Tensor) -> Tensor:
        """Powers before selection, (N, L, L) to (N, L), W."""


def select(power: Tensor, csi: Tensor, scenario: Scenario) -> Tensor:
    """Silence the workers whose rate, energy efficiency or other measure misses its threshold.

    All are computed once, with all candidates on the air: a worker that is dropped does not
    give the others a second chance. (N, L) and (N, L, L) to (N, L), W. For another number of
    workers than the scenario's its thresholds must not be listed per worker.

    A power can be chosen to sit exactly on a threshold; rounding must not silence it.
    """
    if csi.shape[-1] != scenario.workers:
        # What may be listed per worker and does not matter here, so that it is not in the way.
        unread = {"weights": "ones", "bits_per_weight": 1.0, "compute_energy_j_per_bit": 0.0}
        scenario = scenario.replace(workers=csi.shape[-1], **unread)
    sinr = link.sinr(csi, power)
    meets = torch.ones_like(power, dtype=torch.bool)
    for constraint in Problem.from_scenario(scenario).constraints:
        least = constraint.with_margin(-_ROUNDING).threshold.to(power)
        met = constraint.value(sinr, power) >= least
        meets &= met | ~constraint.active.to(power.device)
    return torch.where(meets, power, 0.0)
