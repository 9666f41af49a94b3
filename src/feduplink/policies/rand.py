"""``rand``: random powers, then selection."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.policies.base import Policy
from feduplink.policies.selection import select
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario


class RandomPower(Policy):
    """p_i uniform in (0, Pmax), then one-shot selection (unless ``selection`` is off).

    Every call draws anew; two policies with the same seed draw the same sequence.
    """

    name = "rand"

    def __init__(self, scenario: Scenario, *, seed: int = 0, selection: bool = True) -> None:
        super().__init__(scenario)
        self.seed = seed
        self.selection = selection
        self._generator = torch_generator(seed, "policy")

    @property
    def fixed_workers(self) -> int | None:
        """Bound to the scenario's size only by constants or thresholds listed per worker."""
        return super().fixed_workers or self.scenario.listed_per_worker("rate_min", "ee_min")

    def tensors(self) -> dict[str, Tensor]:
        """The seed, and whether workers are selected."""
        return {"seed": torch.tensor(self.seed), "selection": torch.tensor(self.selection)}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> RandomPower:
        """A policy at the start of its sequence."""
        selection = bool(tensors["selection"])
        return cls(scenario, seed=int(tensors["seed"]), selection=selection)

    def powers(self, csi: Tensor) -> Tensor:
        """Random powers of the selected workers, (N, L, L) to (N, L), W."""
        unit = torch.rand(csi.shape[:-1], generator=self._generator).to(csi)
        power = unit * self.scenario.pmax_w.to(csi)
        return select(power, csi, self.scenario) if self.selection else power
