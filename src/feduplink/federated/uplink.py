"""The rounds of a federation on the uplink: decisions of a policy, arrivals, airtime, energy.

Nothing here depends on the models, so all rounds of a run are computed before training starts.
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
    """The channels of one run's N rounds, the same for every policy that is compared.

    Attributes:
        csi: H of all workers, (N, L, L).
        observed: H as the policy sees it, with the scenario's noise, (N, L, L).
        uniform: random in [0, 1), (N, L); an upload arrives if it is under its success rate.
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
        """The rounds of run ``run``; positions and fading persist as the scenario says.

        ``recorded`` channels, (runs · N or more, L, L), are taken in their order, run after run.
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
    """What the uploads of all policies have in common.

    Attributes:
        scenario: the radio.
        bits: Z of a model, () or (L,) float64.
        deadline_s: end of a round, s, at which all workers stop: unfinished uploads are lost, their
            energy until then is spent. None: no deadline.
        packet_success: which SINR decides whether an upload arrives.

    """

    scenario: Scenario
    bits: Tensor
    deadline_s: float | None = None
    packet_success: ArrivalRule = "worst-phase"


@dataclass(frozen=True)
class UplinkRecord(TensorRecord):
    """N rounds of uploads under one policy.

    Attributes:
        success: probability that an upload arrives, (N, L) float64: the packet success rate, or the
            scenario's objective if that is another success rate; 0 for a worker that is silent or
            does not finish in time.
        transmitting: workers with p > 0, (N, L) bool.
        airtime_s: from the first bit of the round to its last one, at most the deadline, (N,); 0
            if no worker transmits, NaN where time is undefined (``ideal``).
        energy_j: of all workers, (N,); likewise.
        sent_bytes: transmitted by all workers, (N,) float64.
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
        """The rounds under powers (N, L) in W or a schedule; absent workers are silent.

        An upload arrives if its number in ``rounds.uniform`` is under its success rate.
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
        """Rounds in which every upload arrives; time and energy are undefined."""
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
        """By name, for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def cost(self, kappa: float) -> Tensor:
        """time + κ · energy, (N,) s, at the price κ in s/J."""
        return self.airtime_s + kappa * self.energy_j

    def as_metrics(self) -> dict[str, float | None]:
        """Means and medians; delivery rates as their sum and the least of a worker."""
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
    """Powers of the workers present, at most Pmax, in float64.

    A policy made for another scenario may have another Pmax.
    """
    if isinstance(transmission, Tensor):
        power = torch.minimum(transmission, pmax_w.to(transmission)).double()
        return torch.where(present, power, 0.0)
    schedule = transmission.to(torch.float64).limited(pmax_w)
    return replace(schedule, power=torch.where(present[:, None], schedule.power, 0.0))


def transmit(policy: Policy, rounds: Rounds, rules: UplinkRules) -> UplinkRecord:
    """The rounds under the decisions of a policy.

    A policy with a state starts anew and decides round by round, with feedback on the round before.
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
    """The first ``count`` of recorded channels (N, L, L): one per round of all runs, none twice."""
    check_csi(csi, workers)
    if csi.ndim != 3 or len(csi) < count:
        raise InputError(
            f"channels: {len(csi)} recorded for {count} rounds of all runs; accepted: one per "
            "round, or --resample-channels (channels.resample_csi) to draw them with replacement."
        )
    return csi[:count]


def everyone(rounds: int, workers: int) -> Tensor:
    """A presence without comings and goings, (N, L) bool."""
    return torch.ones(rounds, workers, dtype=torch.bool)


def presence(rounds: int, workers: int, changes: dict[int, set[int]]) -> Tensor:
    """A schedule from its changes, (N, L) bool: from round n on, the workers ``changes[n]``.

    Before the first change everyone is there.
    """
    schedule = everyone(rounds, workers)
    starts = [*sorted(changes), rounds]
    for start, end in itertools.pairwise(starts):
        schedule[start:end] = False
        schedule[start:end, sorted(changes[start])] = True
    return schedule
