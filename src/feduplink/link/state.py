"""The state of the uplink in a batch of rounds: everything that follows from CSI and powers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.link.arrivals import ARRIVAL_RULES
from feduplink.link.measures import find_measure, success_rate
from feduplink.link.quality import efficiency_of_rate, packet_success_rate, rate, sinr
from feduplink.link.uploads import Schedule, Upload, energy, scheduled_upload

if TYPE_CHECKING:
    from feduplink.scenario import Scenario
    from feduplink.settings import ArrivalRule


@dataclass(frozen=True, eq=False)
class LinkState:
    """The uplink under transmit powers or a schedule.

    What follows from them is computed when it is asked for, and once.

    Attributes:
        csi: H, (..., L, L).
        transmission: powers, (..., L) W, with which all workers start together, or a schedule.
        scenario: the radio.
        bits: Z of one upload, () or (L,); None: of the model with 39,760 weights.
        deadline_s: end of a round, at which unfinished uploads stop and are lost; None: no end.
        rule: which SINR decides whether an upload arrives.

    """

    csi: Tensor
    transmission: Tensor | Schedule
    scenario: Scenario
    bits: Tensor | None = None
    deadline_s: float | None = None
    rule: ArrivalRule = "worst-phase"

    def __post_init__(self) -> None:
        given = self.transmission
        power = given.power[..., 0, :] if isinstance(given, Schedule) else given
        if power.shape != self.csi.shape[:-1]:
            raise InputError(
                f"power: shape {tuple(power.shape)} does not fit csi of shape "
                f"{tuple(self.csi.shape)}; accepted: (..., L) in W, or a schedule of (..., K, L), "
                "for csi of shape (..., L, L)."
            )

    @cached_property
    def schedule(self) -> Schedule:
        """The phases; one with all senders for powers that are constant."""
        if isinstance(self.transmission, Schedule):
            return self.transmission
        return Schedule.simultaneous(self.transmission)

    @property
    def band_share(self) -> Tensor | None:
        """Share of the band that a worker has for itself, (..., L); None: all share all of it."""
        return None if isinstance(self.transmission, Tensor) else self.transmission.band_share

    @cached_property
    def upload(self) -> Upload:
        """Airtimes, bits and SINRs over the phases of the round."""
        bits = self.uploaded_bits
        return scheduled_upload(
            self.csi, self.schedule, bits, self.scenario.bandwidth_hz, self.deadline_s
        )

    @cached_property
    def uploaded_bits(self) -> Tensor:
        """Z of one upload, () or (L,)."""
        return self.scenario.model_bits() if self.bits is None else self.bits

    @property
    def airtime_s(self) -> Tensor:
        """Time that a worker transmits, (..., L) s; that of the round is ``upload.duration_s``."""
        return self.upload.airtime_s

    @cached_property
    def power(self) -> Tensor:
        """Power of a worker while it sends, (..., L) W; its mean over time under a schedule."""
        if isinstance(self.transmission, Tensor):
            return self.transmission
        return self.upload.power

    @cached_property
    def sinr(self) -> Tensor:
        """SINR with all senders active; under a schedule a worker's lowest one, (..., L)."""
        if isinstance(self.transmission, Tensor):
            return sinr(self.csi, self.transmission)
        return self.upload.sinr

    @cached_property
    def arrivals(self) -> Tensor:
        """The probability that an upload is complete and arrives, (..., L)."""
        sinr = ARRIVAL_RULES[self.rule](self.upload)
        objective = find_measure(self.scenario.objective).from_scenario(self.scenario)
        success = success_rate(objective, self.scenario)
        return success.value(sinr, self.upload.power) * self.upload.finished

    @cached_property
    def energy_j(self) -> Tensor:
        """Energy that each worker spends on computation and transmission, (..., L) J."""
        scenario = self.scenario
        spent = self.upload
        return energy(
            spent.power,
            spent.airtime_s,
            self.uploaded_bits,
            scenario.static_power,
            scenario.compute_energy,
        )


def success(sinr: Tensor, scenario: Scenario) -> Tensor:
    """PSR = exp(−m / SINR) with the scenario's waterfall threshold m, (..., L)."""
    return packet_success_rate(sinr, scenario.waterfall)


def energy_efficiency(sinr: Tensor, power: Tensor, scenario: Scenario) -> Tensor:
    """EE = ln(1 + SINR) / (μ p + P_c) with the constants of the scenario.

    Args:
        sinr: (..., L).
        power: (..., L) W.
        scenario: the radio.

    Returns:
        (..., L), nats/s/Hz/W.
    """
    static = scenario.static_power.to(power)
    return efficiency_of_rate(rate(sinr), power, static, scenario.amplifier_inefficiency)


def upload(
    csi: Tensor,
    transmission: Tensor | Schedule,
    scenario: Scenario,
    *,
    bits: float | Tensor | None = None,
    deadline_s: float | None = None,
    rule: ArrivalRule = "worst-phase",
) -> LinkState:
    """The state of the uplink under powers or a schedule on the channels H.

    It has the airtime, the energy and the probability of arrival of every upload.

    Args:
        csi: H, (..., L, L).
        transmission: powers, (..., L) W, with which all workers start together, or a schedule.
        scenario: the radio.
        bits: Z of one upload, () or (L,); by default of the model with 39,760 weights.
        deadline_s: end of the round, s.
        rule: which SINR decides whether an upload arrives.

    >>> from feduplink import Scenario
    >>> state = upload(torch.ones(2, 2), torch.ones(2), Scenario(workers=2), bits=1e6)
    >>> state.airtime_s.shape, state.energy_j.shape
    (torch.Size([2]), torch.Size([2]))
    """
    uploaded = None if bits is None else torch.as_tensor(bits)
    return LinkState(csi, transmission, scenario, uploaded, deadline_s, rule)
