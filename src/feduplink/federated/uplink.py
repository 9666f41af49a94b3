"""Uplink of a federation: decisions of a policy, arrivals, airtime and energy of every round.

The uplink does not depend on the models, so all rounds of a run are computed before training.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from feduplink.channels import check_csi, draw_csi, observe_csi
from feduplink.errors import InputError
from feduplink.judgement import finite_or_none
from feduplink.link import Schedule, upload
from feduplink.policies import Feedback, Policy
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario
from feduplink.settings import ArrivalRule
from feduplink.tensor_record import TensorRecord


@dataclass(frozen=True)
class Rounds(TensorRecord):
    """Channels and random numbers of the N rounds of a run, shared by all compared policies.

    Attributes:
        csi: true channels H in units of 1/W, (N, L, L).
        observed: CSI that policies observe, with the noise of the scenario, (N, L, L).
        uniform: uniform random numbers in [0, 1), (N, L); an upload arrives if its number is below
            its success probability.
        present: workers in the federation, (N, L) bool.

    """

    csi: Tensor
    observed: Tensor
    uniform: Tensor
    present: Tensor

    @classmethod
    def draw(
        cls,
        scenario: Scenario,
        present: Tensor,
        *,
        seed: int,
        run: int,
        recorded: Tensor | None = None,
    ) -> Rounds:
        """Draw the rounds of a run.

        Args:
            scenario: the cell and its radio; it defines the correlation between rounds.
            present: workers in the federation, (N, L) bool.
            seed: seed of all random numbers.
            run: index of the run, from 0.
            recorded: channels of all runs in order, (runs · N or more, L, L); None draws them.

        Returns:
            The N rounds.
        """
        rounds, workers = present.shape
        if recorded is None:
            csi = draw_csi(scenario, rounds, torch_generator(seed, "round-channels", run))
        else:
            csi = recorded[run * rounds : (run + 1) * rounds]
        return cls(
            csi,
            observe_csi(csi, scenario, seed=seed, noise="round-noise", run=run),
            torch.rand(rounds, workers, generator=torch_generator(seed, "arrivals", run)),
            present,
        )


@dataclass(frozen=True)
class UplinkRules:
    """Upload parameters that are the same for all policies.

    Attributes:
        scenario: the cell and its radio.
        bits: upload size Z in bits, () or (L,) float64.
        deadline_s: deadline of a round, s; uploads that are incomplete by then are lost, but their
            energy is counted. None: no deadline.
        packet_success: rule that decides which SINR an upload is received at.

    """

    scenario: Scenario
    bits: Tensor
    deadline_s: float | None = None
    packet_success: ArrivalRule = "worst-phase"


@dataclass(frozen=True)
class UplinkRecord(TensorRecord):
    """Uploads of N rounds with one policy.

    Attributes:
        success: probability that an upload arrives, (N, L) float64: the packet success rate, or the
            scenario's objective if that is another success rate; 0 for a worker that is silent or
            misses the deadline.
        transmitting: workers with p > 0, (N, L) bool.
        airtime_s: time from the first to the last bit of the round, at most the deadline, (N,), s;
            0 if no worker transmits, NaN if time is undefined (``ideal``).
        energy_j: energy of all workers, (N,), J; NaN if undefined.
        sent_bytes: number of bytes that all workers transmit, (N,) float64.
        arrived: uploads received without error and in time, (N, L) bool.

    """

    success: Tensor
    transmitting: Tensor
    airtime_s: Tensor
    energy_j: Tensor
    sent_bytes: Tensor
    arrived: Tensor

    @classmethod
    def from_transmission(
        cls, transmission: Tensor | Schedule, rounds: Rounds, rules: UplinkRules
    ) -> UplinkRecord:
        """Compute the uploads of N rounds for given powers or schedules.

        An upload arrives if its number in ``rounds.uniform`` is below its success probability.

        Args:
            transmission: powers (N, L) in W, or schedules; limited to Pmax and to the workers
                present.
            rounds: channels and random numbers.
            rules: upload size, deadline and rule of arrivals.
        """
        state = upload(
            rounds.csi.double(),
            _limited(transmission, rounds.present, rules.scenario.max_power),
            rules.scenario,
            bits=rules.bits,
            deadline_s=rules.deadline_s,
            rule=rules.packet_success,
        )
        sent = state.upload
        return cls(
            success=state.arrivals,
            transmitting=sent.power > 0,
            airtime_s=sent.duration_s,
            energy_j=torch.where(rounds.present, state.energy_j, 0.0).sum(-1),
            sent_bytes=sent.sent_bits.sum(-1) / 8,
            arrived=rounds.uniform < state.arrivals,
        )

    @classmethod
    def lossless(cls, rounds: Rounds, rules: UplinkRules) -> UplinkRecord:
        """Record of rounds in which every upload arrives; time and energy are undefined."""
        present = rounds.present
        undefined = torch.full((len(present),), torch.nan, dtype=torch.float64)
        return cls(
            success=present.double(),
            transmitting=present.clone(),
            airtime_s=undefined,
            energy_j=undefined.clone(),
            sent_bytes=(present * rules.bits).sum(-1) / 8,
            arrived=present.clone(),
        )

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def cost(self, kappa: float) -> Tensor:
        """Time + κ · energy of every round, (N,), s; ``kappa`` is the price of energy κ, s/J."""
        return self.airtime_s + kappa * self.energy_j

    def as_metrics(self) -> dict[str, float | None]:
        """Mean and median time and energy, mean number of arrivals and minimum delivery rate."""
        rates = self.success.mean(0)
        figures = {
            "time_s": self.airtime_s.mean(),
            "energy_j": self.energy_j.mean(),
            "median_time_s": self.airtime_s.median(),
            "median_energy_j": self.energy_j.median(),
            "arrivals": rates.sum(),
            "delivery_min": rates.min(),
        }
        return {name: finite_or_none(float(value)) for name, value in figures.items()}


def _limited(transmission: Tensor | Schedule, present: Tensor, pmax_w: Tensor) -> Tensor | Schedule:
    """Powers or schedules limited to Pmax, 0 W for absent workers, in float64.

    The limit matters for a policy that was made for a scenario with another Pmax.
    """
    if isinstance(transmission, Tensor):
        power = torch.minimum(transmission, pmax_w.to(transmission)).double()
        return torch.where(present, power, 0.0)
    schedule = transmission.to(torch.float64).limited(pmax_w)
    return replace(schedule, power=torch.where(present[:, None], schedule.power, 0.0))


def transmit(policy: Policy, rounds: Rounds, rules: UplinkRules) -> UplinkRecord:
    """Compute the uploads of all rounds with a policy.

    A policy with a state is reset and then decides round by round, with feedback on the previous
    round.

    Args:
        policy: policy of the workers.
        rounds: channels and random numbers of N rounds.
        rules: upload size, deadline and rule of arrivals.

    Returns:
        Record of the N rounds.

    >>> from feduplink.policies import make_policy
    >>> scenario = Scenario(workers=2)
    >>> rounds = Rounds.draw(scenario, everyone(3, 2), seed=0, run=0)
    >>> rules = UplinkRules(scenario, bits=torch.tensor(1e6))
    >>> record = transmit(make_policy("max", scenario), rounds, rules)
    >>> record.arrived.shape
    torch.Size([3, 2])
    """
    if policy.is_lossless:
        return UplinkRecord.lossless(rounds, rules)
    if not policy.has_state:
        decided = policy.step(rounds.observed, present=rounds.present, bits=rules.bits)
        return UplinkRecord.from_transmission(decided, rounds, rules)
    policy.reset()
    feedback, records = None, []
    for number in range(len(rounds.csi)):
        row = rounds.take(slice(number, number + 1))
        decided = policy.step(row.observed[0], feedback, present=row.present[0], bits=rules.bits)
        batched = decided[None] if isinstance(decided, Tensor) else decided.batched()
        record = UplinkRecord.from_transmission(batched, row, rules)
        feedback = Feedback(record.transmitting[0], record.arrived[0])
        records.append(record)
    return UplinkRecord.concat(records)


def recorded_rounds(csi: Tensor, count: int, workers: int) -> Tensor:
    """Return the first ``count`` recorded channels, one per round of all runs.

    Args:
        csi: recorded channels, (N, L, L).
        count: number of rounds of all runs.
        workers: required number of workers L.

    Raises:
        InputError: if there are fewer channels, or they do not fit the number of workers.
    """
    check_csi(csi, workers)
    if csi.ndim != 3 or len(csi) < count:
        raise InputError(
            f"channels: {len(csi)} recorded for {count} rounds of all runs; accepted: one per "
            "round, or --resample-channels (channels.resample_csi) to draw them with replacement."
        )
    return csi[:count]


def everyone(rounds: int, workers: int) -> Tensor:
    """Presence of all workers in all rounds, (rounds, workers) bool.

    >>> everyone(1, 3)
    tensor([[True, True, True]])
    """
    return torch.ones(rounds, workers, dtype=torch.bool)


def presence(rounds: int, workers: int, changes: dict[int, set[int]]) -> Tensor:
    """Presence of the workers in every round, from its changes.

    Args:
        rounds: number of rounds N.
        workers: number of workers L.
        changes: ``changes[n]`` is the set of workers present from round n on, counted from 0;
            before the first change all workers are present.

    Returns:
        Presence, (N, L) bool.

    >>> presence(3, 2, {1: {0}})
    tensor([[ True,  True],
            [ True, False],
            [ True, False]])
    """
    schedule = everyone(rounds, workers)
    starts = [*sorted(changes), rounds]
    for start, end in itertools.pairwise(starts):
        schedule[start:end] = False
        schedule[start:end, sorted(changes[start])] = True
    return schedule
