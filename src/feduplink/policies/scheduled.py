"""Policies that schedule the phases of a round to minimise its time and energy.

``tdma`` and ``ofdma`` give the workers orthogonal parts of time and band; ``schedule``,
``learned-schedule`` and ``fixed-power`` select transmitting workers and powers.
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

#: Prefix of a network's weights in a file.
_WEIGHT_PREFIX = "network."
#: Maximum number of training channels for the rewards of delivery.
_MAX_REWARD_CHANNELS = 512


class PricedPolicy(SchedulePolicy):
    """Abstract base class of schedule policies that minimise time + κ · energy.

    Args:
        scenario: the cell and its radio.
        kappa: price of energy κ, s/J; 0 minimises the time only.

    Raises:
        InputError: if ``kappa`` is negative or not finite.
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
        """Make the policy for a scenario; ``kappa`` is the price of energy κ, s/J."""
        return cls(scenario, kappa)

    def tensors(self) -> dict[str, Tensor]:
        """Price of energy κ, s/J."""
        return {"kappa": torch.tensor(self.kappa, dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """Restore a policy from its price of energy."""
        return cls(scenario, float(tensors["kappa"]))


class OrthogonalPolicy(PricedPolicy):
    """Abstract base class of orthogonal multiple access: no worker interferes with another."""

    def schedules(self, csi: Tensor, present: Tensor, bits: Tensor) -> Schedule:
        """Compute the phases of N rounds, as :meth:`SchedulePolicy.schedules`.

        Every worker transmits at the power that minimises its time plus κ times its energy.
        """
        scenario = self.scenario
        gain = csi.double().diagonal(dim1=-2, dim2=-1) * self.noise_reduction(present)
        power = power_alone(gain, scenario.max_power, scenario.static_power, self.kappa)
        return self.share(power * present)

    def noise_reduction(self, present: Tensor) -> Tensor:
        """Noise power of the whole band over that of a worker's share of the band, (N, 1)."""
        return torch.ones_like(present[..., :1], dtype=torch.float64)

    @staticmethod
    @abstractmethod
    def share(power: Tensor) -> Schedule:
        """Phases of N rounds in which workers transmit at these powers, (N, L), W."""


class TDMA(OrthogonalPolicy):
    """Time-division multiple access: workers transmit in turn, each on the whole band.

    Args:
        scenario: the cell and its radio.
        kappa: price of energy κ, s/J; with 0, workers transmit at Pmax.

    >>> policy = TDMA(Scenario(workers=2))
    >>> policy.step(torch.full((2, 2), 100.0)).power
    tensor([[0.0100, 0.0000],
            [0.0000, 0.0100]], dtype=torch.float64)
    """

    name = "tdma"
    summary = "one worker after the other, each on the whole band"
    colour, marker = "#B43077", "<"
    share = staticmethod(Schedule.tdma)


class OFDMA(OrthogonalPolicy):
    """Orthogonal FDMA: all workers transmit at once, each on an equal part of the band.

    Args:
        scenario: the cell and its radio.
        kappa: price of energy κ, s/J; with 0, workers transmit at Pmax.

    """

    name = "ofdma"
    summary = "everyone at once, each on an equal part of the band"
    colour, marker = "#868B00", ">"
    share = staticmethod(Schedule.ofdma)

    def noise_reduction(self, present: Tensor) -> Tensor:
        """Number of workers present, (N, 1)."""
        return present.double().sum(-1, keepdim=True)


class ComputedSchedule(PricedPolicy):
    """Schedule that minimises time + κ · energy, computed for each round.

    Args:
        scenario: the cell and its radio.
        kappa: price of energy κ, s/J; 0 gives the shortest round.
        rewards: reward λ of a delivered model, (L,), s; the senders of a round minimise time
            + κ · energy − Σ λ_i over the delivered models. None: all workers transmit.

    """

    name = "schedule"
    colour, marker = "#4959D1", "p"
    # Linear programs take 0.25 s per channel.
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
        """Make the policy and, for a delivery rate below 1, learn the rewards.

        Args:
            scenario: the cell and its radio.
            context: its training channels are those of the rewards.
            kappa: price of energy κ, s/J.
            delivery: required delivery rate d of every worker, above 0 and at most 1, one value or
                one per worker; with 1, all workers transmit in every round.
            bits: upload size Z in bits, () or (L,); None uses the model with 39,760 weights.

        Returns:
            The policy.

        Raises:
            InputError: if ``kappa`` or ``delivery`` is outside its range.
        """
        policy = cls(scenario, kappa)
        policy.learn_rewards(context.channels, delivery, bits)
        return policy

    def schedules(self, csi: Tensor, present: Tensor, bits: Tensor) -> Schedule:
        """Compute the schedules of N rounds; arguments as :meth:`SchedulePolicy.schedules`.

        Without rewards all workers present transmit; otherwise the best subset of them does.
        """
        if self.rewards is None:
            return self.of_senders(csi, present, bits)
        return self.of_chosen(csi, present, bits, self.rewards)

    def of_senders(self, csi: Tensor, senders: Tensor, bits: Tensor) -> Schedule:
        """Compute the schedules of N rounds for given transmitting workers, (N, L) bool."""
        return find_schedules(
            self.scenario, csi, bits, seconds_per_joule=self.kappa, senders=senders
        ).schedule

    def of_chosen(
        self, csi: Tensor, present: Tensor | None, bits: Tensor, rewards: Tensor
    ) -> Schedule:
        """Compute the schedules and the transmitting workers for rewards (L,), s.

        ``present`` (N, L) bool limits the workers; None means all.
        """
        return choose_rounds(
            self.scenario, csi, bits, rewards, seconds_per_joule=self.kappa, present=present
        ).schedule

    def tensors(self) -> dict[str, Tensor]:
        """Price of energy κ, s/J, and rewards, s, if the policy has any."""
        return super().tensors() | ({} if self.rewards is None else {"rewards": self.rewards})

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """Restore a policy from its price of energy and its rewards."""
        return cls(scenario, float(tensors["kappa"]), tensors.get("rewards"))

    def learn_rewards(
        self,
        channels: Channels | None,
        delivery: float | Sequence[float] = 1.0,
        bits: float | Tensor | None = None,
    ) -> None:
        """Learn rewards at which every worker has the required delivery rate.

        Args:
            channels: channels with a training split; None draws channels from the scenario.
            delivery: required delivery rate of every worker, as in :meth:`make`.
            bits: upload size Z in bits, as in :meth:`make`.
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
    """Schedules whose phases a neural network proposes, to save computing time.

    A policy with a given network, κ = 0 and without rewards accepts κ and the delivery rate later,
    by :meth:`with_options`.

    Args:
        scenario: the cell and its radio.
        kappa: price of energy κ, s/J.
        rewards: reward λ of a delivered model, (L,), s; None: all workers transmit.
        network: network that proposes phases; None is the shipped one.

    """

    name = "learned-schedule"
    algorithm = "schedules"
    colour, marker = "#B2901D", "p"

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
        """Make a policy of the same network; arguments as for :meth:`make`."""
        policy = LearnedSchedule(scenario, kappa, network=self.network)
        policy.learn_rewards(context.channels, **delivery)
        return policy

    def tensors(self) -> dict[str, Tensor]:
        """Price of energy, rewards, and the weights of a network other than the shipped one."""
        weights = {} if self.network is None else self.network.state_dict()
        return super().tensors() | {f"{_WEIGHT_PREFIX}{name}": w for name, w in weights.items()}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """Restore a policy from its price of energy, rewards and weights."""
        weights = TensorFile(tensors, {}).under(_WEIGHT_PREFIX)
        network = PhaseNetwork.from_weights(weights) if weights else None
        return cls(scenario, float(tensors["kappa"]), tensors.get("rewards"), network)

    def of_senders(self, csi: Tensor, senders: Tensor, bits: Tensor) -> Schedule:
        """Propose the schedules of N rounds for given transmitting workers, (N, L) bool."""
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
        """Propose the schedules and the transmitting workers for rewards (L,), s."""
        network = self.network or shipped_phase_network()
        given: dict[str, Any] = {"seconds_per_joule": self.kappa, "present": present}
        senders = learned_senders(network, self.scenario, csi, bits, rewards, **given)
        return self.of_senders(csi, senders, bits)


class FixedPower(PricedPolicy):
    """One power per worker and round that minimises time + κ · energy.

    Args:
        scenario: the cell and its radio.
        kappa: price of energy κ, s/J.

    """

    name = "fixed-power"
    colour, marker = "#00A0A9", "p"
    # The search takes 0.25 s per channel.
    max_verdict_channels = CHANNELS_PER_SPLIT

    def schedules(self, csi: Tensor, present: Tensor, bits: Tensor) -> Schedule:
        """Compute the powers of N rounds; arguments as :meth:`SchedulePolicy.schedules`."""
        return find_fixed_powers(
            self.scenario, csi, bits, seconds_per_joule=self.kappa, senders=present
        )
