"""The rounds of a federation on the uplink: arrivals, airtime, energy.

Nothing here depends on the models, so all rounds of a run are computed before training starts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import check_csi, draw_csi, noisy_csi
from feduplink.errors import InputError
from feduplink.problem import find_measure, success_rate
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario
from feduplink.settings import PacketSuccess
from feduplink.storage.run_directory import finite_or_none
from feduplink.tensor_record import TensorRecord


@dataclass(frozen=True)
class Rounds:
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
            noisy_csi(csi, scenario.csi_noise, torch_generator(seed, "csi-noise", run)),
            torch.rand(rounds, workers, generator=torch_generator(seed, "arrivals", run)),
            present,
        )


@dataclass(frozen=True)
class UplinkRules:
    """What the uploads of all policies have in common.

    Attributes:
        scenario: the radio.
        bits: Z of a model, () or (L,) float64.
        deadline_s: end of a round, s, where everybody stops: unfinished uploads are lost, their
            energy until then is spent. None is no deadline.
        packet_success: which SINR decides whether an upload arrives.

    """

    scenario: Scenario
    bits: Tensor
    deadline_s: float | None = None
    packet_success: PacketSuccess = "worst-phase"


@dataclass(frozen=True)
class Uploads(TensorRecord):
    """What the workers put on the air in N rounds, and how likely it arrives.

    Attributes:
        success: q, the probability that an upload arrives, (N, L) float64: the packet success
            rate, or the scenario's objective if that is another success rate; 0 for a worker that
            is silent or does not finish in time.
        transmitting: workers with p > 0, (N, L) bool.
        airtime_s: from the first bit of the round to its last one, at most the deadline, (N,); 0
            if nobody transmits, NaN where time is not defined (``ideal``).
        energy_j: of all workers, (N,); likewise.
        sent_bytes: put on the air by all workers, (N,) float64.

    """

    success: Tensor
    transmitting: Tensor
    airtime_s: Tensor
    energy_j: Tensor
    sent_bytes: Tensor

    @classmethod
    def from_link(cls, upload: link.Upload, present: Tensor, rules: UplinkRules) -> Uploads:
        """From SINRs and airtimes of all rounds; who is not ``present`` (N, L) spends nothing."""
        worst = rules.packet_success == "worst-phase"
        sinr = upload.sinr if worst else 1 / upload.mean_inverse_sinr
        scenario = rules.scenario
        objective = find_measure(scenario.objective).from_scenario(scenario)
        arriving = success_rate(objective, scenario).value(sinr, upload.power)
        energy = link.energy(
            upload.power,
            upload.airtime_s,
            rules.bits,
            scenario.static_power,
            scenario.compute_energy,
        )
        return cls(
            success=arriving * upload.finished,
            transmitting=upload.power > 0,
            airtime_s=upload.duration_s,
            energy_j=torch.where(present, energy, 0.0).sum(-1),
            sent_bytes=upload.sent_bits.sum(-1) / 8,
        )

    def tensors(self) -> dict[str, Tensor]:
        """By name, for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class UplinkRecord(Uploads):
    """What happened on the air in N rounds.

    Attributes:
        arrived: uploads received without error and in time, (N, L) bool.

    """

    arrived: Tensor

    @classmethod
    def draw(cls, uploads: Uploads, uniform: Tensor) -> UplinkRecord:
        """An upload arrives if its number in ``uniform`` (N, L) is under its success rate."""
        return cls(**uploads.tensors(), arrived=uniform < uploads.success)


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


@dataclass(frozen=True, repr=False)
class RoundCosts:
    """N rounds with one sender.

    Attributes:
        time_s: from the first bit of a round to its last one, (N,) s.
        energy_j: of all workers, (N,) J.
        success: the probability that a worker's model arrives, (N, L).
        seconds_per_joule: κ, if the sender chose by it.
    """

    time_s: Tensor
    energy_j: Tensor
    success: Tensor
    seconds_per_joule: float | None = None

    @classmethod
    def from_uploads(cls, uploads: Uploads, seconds_per_joule: float | None = None) -> RoundCosts:
        """What uploads took."""
        return cls(uploads.airtime_s, uploads.energy_j, uploads.success, seconds_per_joule)

    def cost(self, seconds_per_joule: float) -> Tensor:
        """time + κ · energy, (N,) s."""
        return self.time_s + seconds_per_joule * self.energy_j

    def as_metrics(self) -> dict[str, Any]:
        """Means and medians, and how often models arrive: of all workers, and of the last one."""
        rates = self.success.mean(0)
        figures = {
            "time_s": self.time_s.mean(),
            "energy_j": self.energy_j.mean(),
            "median_time_s": self.time_s.median(),
            "median_energy_j": self.energy_j.median(),
            "arrivals": rates.sum(),
            "delivery_min": rates.min(),
        }
        entry = {name: finite_or_none(float(value)) for name, value in figures.items()}
        return {"kappa_s_per_j": self.seconds_per_joule, **entry}


def rounds_on(csi: Tensor, scenario: Scenario, *, seed: int = 0) -> Rounds:
    """One round on each of the channels (N, L, L), everyone present."""
    count, workers = csi.shape[:2]
    observed = noisy_csi(csi, scenario.csi_noise, torch_generator(seed, "csi-noise", 0))
    uniform = torch.zeros(count, workers)
    return Rounds(csi, observed, uniform, everyone(count, workers))
