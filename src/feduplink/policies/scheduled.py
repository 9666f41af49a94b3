"""Policies that schedule the phases of a round by time and energy.

``tdma`` and ``ofdma`` share time and band without interference; ``schedule``, ``learned-schedule``
and ``fixed-power`` choose senders and powers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from feduplink.channels import Channels, draw_training_csi
from feduplink.errors import InputError
from feduplink.link import Schedule, power_alone
from feduplink.policies.base import SchedulePolicy, TuningContext
from feduplink.scenario import Scenario, float64
from feduplink.scheduling import (
    PhaseNetwork,
    check_delivery,
    choose_rounds,
    find_fixed_powers,
    find_rewards,
    find_schedules,
    learned_schedules,
    learned_senders,
    shipped_phase_network,
)
from feduplink.settings import CHANNELS_PER_SPLIT
from feduplink.storage.tensorfile import TensorFile

#: Prefix of the names of a network's weights in a file.
_NETWORK = "network."
#: Largest number of training channels that rewards for delivery are learned on.
_MAX_REWARD_CHANNELS = 512


class PricedPolicy(SchedulePolicy):
    """A schedule policy that chooses powers by time + κ · energy.

    Args:
        scenario: the cell and its radio.
        kappa: price of energy κ, s/J; 0 minimises time alone.

    """

    options: ClassVar[tuple[str, ...]] = ("kappa",)
    kappa: float

    def __init__(self, scenario: Scenario, kappa: float = 0.0) -> None:
        super().__init__(scenario)
        if not 0 <= kappa < math.inf:
            raise InputError(f"kappa: {kappa} s/J is not accepted; accepted: 0 or more, finite.")
        self.kappa = kappa

    @classmethod
    def make(cls, scenario: Scenario, context: TuningContext, *, kappa: float = 0.0) -> Self:
        """Make the policy for a scenario, at the price of energy κ in s/J."""
        return cls(scenario, kappa)

    def tensors(self) -> dict[str, Tensor]:
        """The price of energy."""
        return {"kappa": torch.tensor(self.kappa, dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """A policy at this price of energy."""
        return cls(scenario, float(tensors["kappa"]))


class OrthogonalPolicy(PricedPolicy):
    """Every worker has a part of the round or of the band for itself."""

    def schedules(self, csi: Tensor, present: Tensor, bits: Tensor) -> Schedule:
        """Every worker at the power that minimises its time plus κ times its energy."""
        scenario = self.scenario
        gain = csi.double().diagonal(dim1=-2, dim2=-1) * self.noise_reduction(present)
        power = power_alone(gain, scenario.max_power, scenario.static_power, self.kappa)
        return self.share(power * present)

    def noise_reduction(self, present: Tensor) -> Tensor:
        """Noise power of the whole band over that of a worker's share of it, (N, 1)."""
        return torch.ones_like(present[..., :1], dtype=torch.float64)

    @staticmethod
    @abstractmethod
    def share(power: Tensor) -> Schedule:
        """The phases of rounds in which workers send at these powers, (N, L) W."""


class TDMA(OrthogonalPolicy):
    """One worker after the other, each on the whole band."""

    name = "tdma"
    summary = "one worker after the other, each on the whole band"
    colour, marker = "#882255", "<"
    share = staticmethod(Schedule.tdma)


class OFDMA(OrthogonalPolicy):
    """All workers at once, each on an equal part of the band."""

    name = "ofdma"
    summary = "everyone at once, each on an equal part of the band"
    colour, marker = "#999933", ">"
    share = staticmethod(Schedule.ofdma)

    def noise_reduction(self, present: Tensor) -> Tensor:
        """The number of workers present, (N, 1)."""
        return present.double().sum(-1, keepdim=True)


class ComputedSchedule(PricedPolicy):
    """The schedule of least time + κ · energy, round by round.

    Args:
        scenario: the cell and its radio.
        kappa: price of energy κ, s/J; 0 gives the shortest round.
        rewards: λ of a delivered model, (L,) s: workers whose upload costs more in a round stay
            silent in it. None: all workers send in every round.

    """

    name = "schedule"
    colour, marker = "#332288", "p"
    # Linear programs that take a quarter of a second for every channel.
    max_verdict_channels = CHANNELS_PER_SPLIT
    options: ClassVar[tuple[str, ...]] = ("kappa", "delivery", "bits")

    def __init__(
        self, scenario: Scenario, kappa: float = 0.0, rewards: Tensor | None = None
    ) -> None:
        super().__init__(scenario, kappa)
        self.rewards = rewards

    @classmethod
    def make(
        cls,
        scenario: Scenario,
        context: TuningContext,
        *,
        kappa: float = 0.0,
        delivery: float | Sequence[float] = 1.0,
        bits: float | Tensor | None = None,
    ) -> Self:
        """Make the policy; for ``delivery`` below 1, learn the rewards on the training channels.

        Args:
            scenario: the cell and its radio.
            context: the rewards are learned on its training channels; the rest is not used.
            kappa: price of energy κ, s/J.
            delivery: d, share of the rounds in which the model of every worker has to arrive, one
                value or one per worker; with 1 all workers send in every round.
            bits: Z of one upload that the rewards are learned for, () or (L,); by default of the
                model with 39,760 weights.
        """
        policy = cls(scenario, kappa)
        policy.learn_rewards(context.channels, delivery, bits)
        return policy

    def schedules(self, csi: Tensor, present: Tensor, bits: Tensor) -> Schedule:
        """The schedules of all workers present, or of those whose reward exceeds their cost."""
        if self.rewards is None:
            return self.of_senders(csi, present, bits)
        return self.of_chosen(csi, present, bits, self.rewards)

    def of_senders(self, csi: Tensor, senders: Tensor, bits: Tensor) -> Schedule:
        """The schedules of given senders, (N, L) bool."""
        return find_schedules(
            self.scenario, csi, bits, seconds_per_joule=self.kappa, senders=senders
        ).schedule

    def of_chosen(
        self, csi: Tensor, present: Tensor | None, bits: Tensor, rewards: Tensor
    ) -> Schedule:
        """The schedules of the best senders at rewards (L,) s; ``present`` None is everyone."""
        return choose_rounds(
            self.scenario, csi, bits, rewards, seconds_per_joule=self.kappa, present=present
        ).schedule

    def tensors(self) -> dict[str, Tensor]:
        """Price of energy, and the rewards if there are any."""
        return super().tensors() | ({} if self.rewards is None else {"rewards": self.rewards})

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """A policy at this price of energy with these rewards."""
        return cls(scenario, float(tensors["kappa"]), tensors.get("rewards"))

    def learn_rewards(
        self,
        channels: Channels | None,
        delivery: float | Sequence[float] = 1.0,
        bits: float | Tensor | None = None,
    ) -> None:
        """Learn rewards with which every worker delivers in a share ``delivery`` of the rounds.

        Arguments are those of :meth:`make`; ``channels`` None draws from the scenario.
        """
        scenario = self.scenario
        rates = float64(delivery)
        rates = rates.expand(scenario.workers) if rates.numel() == 1 else rates
        check_delivery(rates, scenario.workers)
        if not bool((rates < 1).any()):
            return
        uploaded = scenario.model_bits() if bits is None else float64(bits)
        if channels is None:
            csi, recorded = draw_training_csi(scenario, _MAX_REWARD_CHANNELS), False
        else:
            csi, recorded = channels.training[:_MAX_REWARD_CHANNELS], channels.recorded
        own = scenario.listed_per_worker(*scenario.per_worker) is not None
        alike = scenario.geometry == "redrawn" and not (recorded or own)
        demand = uploaded.expand(scenario.workers)
        self.rewards = find_rewards(
            scenario,
            csi,
            demand,
            rates,
            seconds_per_joule=self.kappa,
            alike=alike and len(demand.unique()) == 1,
            choose=lambda some, rewards: self.of_chosen(some, None, demand, rewards),
        )


class LearnedSchedule(ComputedSchedule):
    """Schedules of a network: nearly as good, at a fraction of the time.

    A trained network at κ = 0 and without rewards still takes both: ``make_policy`` gives it the κ
    and the delivery of the command.

    Args:
        scenario: the cell and its radio.
        kappa: price of energy κ, s/J.
        rewards: λ of a delivered model, (L,) s; None: all workers send in every round.
        network: proposes the phases; None is the shipped one.

    """

    name = "learned-schedule"
    algorithm = "schedules"
    colour, marker = "#DDAA33", "p"

    def __init__(
        self,
        scenario: Scenario,
        kappa: float = 0.0,
        rewards: Tensor | None = None,
        network: PhaseNetwork | None = None,
    ) -> None:
        super().__init__(scenario, kappa, rewards)
        self.network = network
        if network is not None and kappa == 0 and rewards is None:
            self.open_options = self.options

    def with_options(
        self, scenario: Scenario, context: TuningContext, *, kappa: float = 0.0, **delivery: Any
    ) -> LearnedSchedule:
        """The schedules of the same network; arguments as of :meth:`make`."""
        policy = LearnedSchedule(scenario, kappa, network=self.network)
        policy.learn_rewards(context.channels, **delivery)
        return policy

    def tensors(self) -> dict[str, Tensor]:
        """Price of energy, rewards, and the network unless it is the shipped one."""
        weights = {} if self.network is None else self.network.state_dict()
        return super().tensors() | {f"{_NETWORK}{name}": w for name, w in weights.items()}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """A policy at this price of energy with these rewards and this network."""
        weights = TensorFile(tensors, {}).under(_NETWORK)
        network = PhaseNetwork.from_weights(weights) if weights else None
        return cls(scenario, float(tensors["kappa"]), tensors.get("rewards"), network)

    def of_senders(self, csi: Tensor, senders: Tensor, bits: Tensor) -> Schedule:
        """The schedules of given senders, (N, L) bool."""
        return learned_schedules(
            self.network or shipped_phase_network(),
            self.scenario,
            csi,
            bits,
            seconds_per_joule=self.kappa,
            senders=senders,
        )

    def of_chosen(
        self, csi: Tensor, present: Tensor | None, bits: Tensor, rewards: Tensor
    ) -> Schedule:
        """The schedules of the senders that the network chooses at rewards (L,) s."""
        network = self.network or shipped_phase_network()
        given: dict[str, Any] = {"seconds_per_joule": self.kappa, "present": present}
        senders = learned_senders(network, self.scenario, csi, bits, rewards, **given)
        return self.of_senders(csi, senders, bits)


class FixedPower(PricedPolicy):
    """One power per worker and round, the best for time + κ · energy."""

    name = "fixed-power"
    colour, marker = "#44AA99", "p"
    # A search of a quarter of a second for every channel.
    max_verdict_channels = CHANNELS_PER_SPLIT

    def schedules(self, csi: Tensor, present: Tensor, bits: Tensor) -> Schedule:
        """One phase per round."""
        return find_fixed_powers(
            self.scenario, csi, bits, seconds_per_joule=self.kappa, senders=present
        )
