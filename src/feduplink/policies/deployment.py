"""What a policy is made for."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from feduplink.channels import ChannelSource
from feduplink.problem import Problem
from feduplink.scenario import Scenario


@dataclass(frozen=True)
class Deployment:
    """A cell with its problem, and what is known of its channels beforehand.

    Attributes:
        scenario: the cell and its radio.
        training: channels to tune it on, (N, L, L).
        problem: what the policy has to solve there; None is what the scenario describes.
        recorded: they are all that is known; more cannot be drawn from the scenario.
        seed: of random numbers.

    """

    scenario: Scenario
    training: Tensor
    problem: Problem | None = None
    recorded: bool = False
    seed: int = 0

    @classmethod
    def from_channels(
        cls, scenario: Scenario, channels: ChannelSource, *, seed: int = 0
    ) -> Deployment:
        """The problem of the scenario, with the training part of its channels to tune on."""
        return cls(scenario, channels.training, recorded=channels.recorded, seed=seed)
