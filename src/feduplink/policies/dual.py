"""``dual``: maximise the Lagrangian channel by channel, at learned multipliers."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.lagrangian import Cell, Multipliers, maximise
from feduplink.policies.base import Policy
from feduplink.scenario import Scenario

#: Channels maximised at once; more would only need more memory.
_CHUNK = 4096


class DualPolicy(Policy):
    """The near-optimal policy: at the optimal multipliers its powers solve the whole problem.

    One multiplier for each worker and constraint, so it takes the workers it was learned for.
    """

    name = "dual"

    def __init__(self, scenario: Scenario, multipliers: Multipliers) -> None:
        super().__init__(scenario)
        self.multipliers = multipliers

    @property
    def fixed_workers(self) -> int | None:
        """The workers the multipliers belong to."""
        return self.scenario.workers

    def powers(self, csi: Tensor) -> Tensor:
        """Maximisers of the Lagrangian, (N, L, L) to (N, L), W."""
        prices = self.multipliers.to(csi.device).prices(self.scenario)
        parts = [
            maximise(Cell.of(self.scenario, csi[start : start + _CHUNK]), prices)
            for start in range(0, len(csi), _CHUNK)
        ]
        return torch.cat(parts).to(csi.dtype)

    def tensors(self) -> dict[str, Tensor]:
        """The multipliers."""
        return {"constraints": self.multipliers.constraints, "worth": self.multipliers.worth}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> DualPolicy:
        """A policy with these multipliers."""
        return cls(scenario, Multipliers(tensors["constraints"], tensors["worth"]))
