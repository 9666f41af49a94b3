"""``rand``: random powers, then selection."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from feduplink.policies.deployment import Deployment
from feduplink.policies.selection import SelectingPolicy
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario


class RandomPower(SelectingPolicy):
    """p_i uniform in (0, Pmax), then one-shot selection.

    Every call draws anew; two policies with the same seed draw the same sequence.
    """

    name = "rand"
    summary = "random powers; who would miss a threshold stays silent"
    by_default = True
    colour, marker = "#999999", "v"

    def __init__(self, scenario: Scenario, *, seed: int = 0) -> None:
        super().__init__(scenario)
        self.seed = seed
        self._generator = torch_generator(seed, "policy")

    @classmethod
    def for_deployment(cls, deployment: Deployment) -> Self:
        """With the seed of the run."""
        return cls(deployment.scenario, seed=deployment.seed)

    def tensors(self) -> dict[str, Tensor]:
        """The seed."""
        return {"seed": torch.tensor(self.seed)}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """A policy at the start of its sequence."""
        return cls(scenario, seed=int(tensors["seed"]))

    def candidate_powers(self, csi: Tensor) -> Tensor:
        """Random powers of all workers, (N, L, L) to (N, L), W."""
        unit = torch.rand(csi.shape[:-1], generator=self._generator).to(csi)
        return unit * self.scenario.pmax_w.to(csi)


class UnselectedRandomPower(RandomPower):
    """``rand`` in the reading of the paper's code: nobody is silenced."""

    name = "rand:unselected"
    summary = "random powers, and everyone sends"
    selects = False
