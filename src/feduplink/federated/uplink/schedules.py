"""Access by schedules: who sends, and at which power, changes in the course of a round.

What returns phases derives from :class:`ScheduledAccess`; one vector of powers is one phase.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import Channels, draw_training_csi
from feduplink.errors import InputError
from feduplink.federated.uplink.access import AccessScheme, check_kappa
from feduplink.federated.uplink.rounds import Rounds, UplinkRules, Uploads
from feduplink.link import Schedule
from feduplink.scenario import Scenario
from feduplink.scheduling import (
    choose_rounds,
    find_fixed_powers,
    find_rewards,
    find_schedules,
    learned_schedules,
    learned_senders,
    shipped_phase_network,
)

#: Training channels that rewards are learned from.
_LEARNED_FROM = 512


class ScheduledAccess(AccessScheme):
    """Uploads in phases, on the whole band."""

    @abstractmethod
    def schedules(self, csi: Tensor, present: Tensor, rules: UplinkRules) -> Schedule:
        """The phases of N rounds.

        Args:
            csi: H as it is observed, (N, L, L).
            present: who could send, (N, L) bool.
            rules: the radio and the bits to send.
        """

    def uploads(self, rounds: Rounds, rules: UplinkRules) -> Uploads:
        """What comes of the schedules on the true channels; absent workers do not send."""
        planned = self.schedules(rounds.observed, rounds.present, rules)
        return uploads_of(planned, rounds, rules)


def uploads_of(planned: Schedule, rounds: Rounds, rules: UplinkRules) -> Uploads:
    """What comes of the schedules of N rounds on the true channels."""
    power = torch.where(rounds.present[:, None], planned.power.double(), 0.0)
    schedule = Schedule(planned.durations_s.double(), power).limited(rules.scenario.pmax_w)
    upload = link.scheduled_upload(
        rounds.csi.double(), schedule, rules.bits, rules.scenario.bandwidth_hz, rules.deadline_s
    )
    return Uploads.from_link(upload, rounds.present, rules)


class ComputedSchedule(ScheduledAccess):
    """The schedule of least time + κ · energy, round by round.

    Args:
        seconds_per_joule: κ, how many seconds one joule is worth; 0 is the fastest round.
        delivery: d, the share of rounds in which each worker's model has to arrive, one value or
            one per worker; 1 lets everyone send in every round.
        scenario: that rewards for delivered models are learned for; None is that of the uplink.
        channels: the training channels are those that rewards are learned from; None draws some
            from the scenario.
    """

    name = "schedule"
    colour, marker = "#332288", "p"

    def __init__(
        self,
        seconds_per_joule: float = 0.0,
        delivery: float | Sequence[float] = 1.0,
        scenario: Scenario | None = None,
        channels: Channels | None = None,
    ) -> None:
        self.seconds_per_joule = check_kappa(seconds_per_joule)
        self.delivery = (delivery,) if isinstance(delivery, int | float) else tuple(delivery)
        if not all(0 < rate <= 1 for rate in self.delivery):
            raise InputError(
                f"delivery: {delivery} is not accepted; accepted: above 0 and at most 1, one value "
                "or one per worker."
            )
        self._scenario, self._channels = scenario, channels
        self._rewards: dict[str, Tensor] = {}

    def schedules(self, csi: Tensor, present: Tensor, rules: UplinkRules) -> Schedule:
        """Those of everyone present, or of who is worth the time and energy in this round."""
        if all(rate == 1 for rate in self.delivery):
            return self._of_senders(rules.scenario, csi, rules.bits, present)
        rewards = self._rewards_for(rules)
        return self._of_chosen(rules.scenario, csi, rules.bits, rewards, present)

    def _of_senders(
        self, scenario: Scenario, csi: Tensor, bits: Tensor, senders: Tensor
    ) -> Schedule:
        """Those of given senders, (N, L) bool."""
        return find_schedules(
            scenario, csi, bits, seconds_per_joule=self.seconds_per_joule, senders=senders
        ).schedule

    def _of_chosen(
        self,
        scenario: Scenario,
        csi: Tensor,
        bits: Tensor,
        rewards: Tensor,
        present: Tensor | None = None,
    ) -> Schedule:
        """Those of who is worth it at rewards (L,) s, of all or of who is present."""
        return choose_rounds(
            scenario,
            csi,
            bits,
            rewards,
            seconds_per_joule=self.seconds_per_joule,
            present=present,
        ).schedule

    def _rewards_for(self, rules: UplinkRules) -> Tensor:
        scenario, bits = rules.scenario, rules.bits.expand(rules.scenario.workers)
        key = f"{scenario.model_dump()} {bits.tolist()}"
        if key not in self._rewards:
            self._rewards[key] = self._find_rewards(scenario, bits)
        return self._rewards[key]

    def _find_rewards(self, scenario: Scenario, bits: Tensor) -> Tensor:
        delivery = torch.tensor(self.delivery, dtype=torch.float64)
        if len(delivery) == 1:
            delivery = delivery.expand(scenario.workers)
        scenario = self._scenario or scenario
        if self._channels is None:
            csi, recorded = draw_training_csi(scenario, _LEARNED_FROM), False
        else:
            csi = self._channels.training[:_LEARNED_FROM]
            recorded = self._channels.recorded
        own = scenario.listed_per_worker(*scenario.per_worker) is not None
        alike = scenario.geometry == "redrawn" and not (recorded or own)
        return find_rewards(
            scenario,
            csi,
            bits,
            delivery,
            seconds_per_joule=self.seconds_per_joule,
            alike=alike and len(bits.unique()) == 1,
            choose=lambda some, rewards: self._of_chosen(scenario, some, bits, rewards),
        )


class LearnedSchedule(ComputedSchedule):
    """Schedules of the shipped network: nearly as good, at a fraction of the time.

    Arguments as for :class:`ComputedSchedule`.
    """

    name = "learned-schedule"
    algorithm = "schedules"
    colour, marker = "#DDAA33", "p"

    def _of_senders(
        self, scenario: Scenario, csi: Tensor, bits: Tensor, senders: Tensor
    ) -> Schedule:
        return learned_schedules(
            shipped_phase_network(),
            scenario,
            csi,
            bits,
            seconds_per_joule=self.seconds_per_joule,
            senders=senders,
        )

    def _of_chosen(
        self,
        scenario: Scenario,
        csi: Tensor,
        bits: Tensor,
        rewards: Tensor,
        present: Tensor | None = None,
    ) -> Schedule:
        senders = learned_senders(
            shipped_phase_network(),
            scenario,
            csi,
            bits,
            rewards,
            seconds_per_joule=self.seconds_per_joule,
            present=present,
        )
        return self._of_senders(scenario, csi, bits, senders)


class FixedPowerAccess(ScheduledAccess):
    """One power per worker and round, the best for time + κ · energy; who has finished leaves.

    Args:
        seconds_per_joule: κ, how many seconds one joule is worth; 0 is the fastest round.
    """

    name = "fixed-power"
    colour, marker = "#44AA99", "p"

    def __init__(self, seconds_per_joule: float = 0.0) -> None:
        self.seconds_per_joule = check_kappa(seconds_per_joule)

    def schedules(self, csi: Tensor, present: Tensor, rules: UplinkRules) -> Schedule:
        """One phase per round."""
        return find_fixed_powers(
            rules.scenario,
            csi,
            rules.bits,
            seconds_per_joule=self.seconds_per_joule,
            senders=present,
        ).schedule
