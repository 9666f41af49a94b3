"""State of the uplink in a batch of rounds: SINR, airtime, energy and arrivals."""

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
    """The uplink under transmit powers or a schedule; derived quantities are computed lazily.

    :func:`feduplink.link.upload` constructs a state.

    Attributes:
        csi: channels H, (..., L, L), in 1/W.
        transmission: transmit powers, (..., L), W, of workers that start together; or a schedule.
        scenario: the radio.
        bits: size Z of one upload, () or (L,), bits; None: the model with 39,760 weights.
        deadline_s: end of the round, s, at which unfinished uploads stop and are lost; None: none.
        rule: arrival rule, see :mod:`feduplink.link.arrivals`.

    Raises:
        InputError: if the shapes of channels and powers do not match.

    >>> import feduplink as fu
    >>> csi = torch.tensor([[100.0, 10.0], [5.0, 50.0]])
    >>> state = fu.LinkState(csi, torch.tensor([0.01, 0.02]), fu.Scenario(workers=2))
    >>> state.sinr
    tensor([0.8333, 0.9524])
    >>> state.airtime_s > 0
    tensor([True, True])
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
                f"power: shape {tuple(power.shape)} does not match csi of shape "
                f"{tuple(self.csi.shape)}; accepted: (..., L) in W, or a schedule of (..., K, L), "
                "for csi of shape (..., L, L)."
            )

    @cached_property
    def schedule(self) -> Schedule:
        """Schedule of the round; a single phase if powers are given."""
        if isinstance(self.transmission, Schedule):
            return self.transmission
        return Schedule.simultaneous(self.transmission)

    @property
    def band_share(self) -> Tensor | None:
        """Exclusive share of the band per worker, (..., L); None if all use the whole band."""
        return None if isinstance(self.transmission, Tensor) else self.transmission.band_share

    @cached_property
    def upload(self) -> Upload:
        """Airtimes, bits, powers and SINRs of the uploads."""
        bits = self.uploaded_bits
        return scheduled_upload(
            self.csi, self.schedule, bits, self.scenario.bandwidth_hz, self.deadline_s
        )

    @cached_property
    def uploaded_bits(self) -> Tensor:
        """Size Z of one upload, () or (L,), bits."""
        return self.scenario.model_bits() if self.bits is None else self.bits

    @property
    def airtime_s(self) -> Tensor:
        """Airtime of every worker, (..., L), s; ``upload.duration_s`` is that of the round."""
        return self.upload.airtime_s

    @cached_property
    def power(self) -> Tensor:
        """Transmit power, (..., L), W; under a schedule its mean over the airtime."""
        if isinstance(self.transmission, Tensor):
            return self.transmission
        return self.upload.power

    @cached_property
    def sinr(self) -> Tensor:
        """SINR with all workers active, (..., L), linear; under a schedule the lowest SINR."""
        if isinstance(self.transmission, Tensor):
            return sinr(self.csi, self.transmission)
        return self.upload.sinr

    @cached_property
    def arrivals(self) -> Tensor:
        """Probability that an upload is completed and arrives, (..., L)."""
        sinr = ARRIVAL_RULES[self.rule](self.upload)
        objective = find_measure(self.scenario.objective).from_scenario(self.scenario)
        success = success_rate(objective, self.scenario)
        return success.value(sinr, self.upload.power) * self.upload.finished

    @cached_property
    def energy_j(self) -> Tensor:
        """Energy of computation and transmission, (..., L), J."""
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
    """Packet success rate PSR = exp(−m / SINR) with the waterfall threshold m of a scenario.

    Args:
        sinr: SINR, (..., L), linear.
        scenario: the radio.

    Returns:
        PSR, (..., L).
    """
    return packet_success_rate(sinr, scenario.waterfall)


def energy_efficiency(sinr: Tensor, power: Tensor, scenario: Scenario) -> Tensor:
    """Energy efficiency EE = ln(1 + SINR) / (μ p + P_c) with the constants of a scenario.

    Args:
        sinr: SINR, (..., L), linear.
        power: transmit powers p, (..., L), W.
        scenario: the radio.

    Returns:
        EE, (..., L), nats/s/Hz/W.
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
    """Compute the uploads of rounds: airtime, energy and probability of arrival.

    Args:
        csi: channels H, (..., L, L), in 1/W.
        transmission: transmit powers, (..., L), W, of workers that start together; or a schedule.
        scenario: the radio.
        bits: size Z of one upload, () or (L,), bits; None: the model with 39,760 weights.
        deadline_s: end of the round, s, at which unfinished uploads stop and are lost; None: none.
        rule: arrival rule, see :mod:`feduplink.link.arrivals`.

    Returns:
        The state of the uplink; its quantities are computed at their first use.

    Raises:
        InputError: if the shapes of channels and powers do not match.

    >>> from feduplink import Scenario
    >>> state = upload(torch.ones(2, 2), torch.ones(2), Scenario(workers=2), bits=1e6)
    >>> state.airtime_s.shape, state.energy_j.shape
    (torch.Size([2]), torch.Size([2]))
    """
    uploaded = None if bits is None else torch.as_tensor(bits)
    return LinkState(csi, transmission, scenario, uploaded, deadline_s, rule)
