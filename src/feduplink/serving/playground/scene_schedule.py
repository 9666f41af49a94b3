"""The schedule of a scene: who sends when in this round, at which power."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field
from torch import Tensor

from feduplink.federated import LearnedSchedule
from feduplink.scenario import Scenario
from feduplink.scheduling import learned_schedules, shipped_phase_network

#: Seconds that a joule is worth in the playground.
_KAPPA = 10.0


class PhaseAnswer(BaseModel):
    """A part of the round with constant powers."""

    duration_s: float
    power_w: list[float] = Field(description="per worker, in the scene's order; 0: silent")


class ScheduleAnswer(BaseModel):
    """A schedule of little time + κ · energy, in which everyone sends its model."""

    name: str = LearnedSchedule.name
    colour: str = str(LearnedSchedule.colour)
    kappa: float = Field(default=_KAPPA, description="seconds that a joule is worth")
    phases: list[PhaseAnswer]
    round_s: float
    round_j: float

    @classmethod
    def from_channel(cls, csi: Tensor, scenario: Scenario, bits: float | Tensor) -> Self:
        """That of the network that ships, for H (L, L)."""
        found = learned_schedules(
            shipped_phase_network(), scenario, csi[None], bits, seconds_per_joule=_KAPPA
        ).limited(scenario.pmax_w)
        phases = zip(found.durations_s[0].tolist(), found.power[0].tolist(), strict=True)
        computing = (scenario.compute_energy * bits).expand(csi.shape[-1]).sum()
        return cls(
            phases=[
                PhaseAnswer(duration_s=duration, power_w=powers)
                for duration, powers in phases
                if duration > 0
            ],
            round_s=float(found.time_s),
            round_j=float(found.energy_j(scenario.static_power)) + float(computing),
        )
