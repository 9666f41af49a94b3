"""What the radio does to a federation: who is heard in which round, and what it costs.

Nothing here depends on the models, so all rounds of a run are settled before training starts.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import check_csi, draw_csi, noisy_csi
from feduplink.errors import InputError
from feduplink.policies.base import Policy
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

#: Which SINR decides whether an upload arrives: that of the full set of senders, the least of the
#: round, as in the paper; or that of every phase, each weighing as many bits as are sent in it.
PacketSuccess = Literal["worst-phase", "every-phase"]


class Ideal:
    """Stands for a policy where every upload arrives; time and energy are not defined."""

    name = "ideal"


#: One worker after the other, or an equal part of the band for everyone at once.
OrthogonalName = Literal["tdma", "ofdma"]


@dataclass(frozen=True)
class OrthogonalAccess:
    """Stands for a policy where nobody disturbs anybody (:mod:`feduplink.link.orthogonal`).

    Attributes:
        name: ``tdma``, one worker after the other, or ``ofdma``, an equal part of the band each.
        seconds_per_joule: κ, how many seconds one joule is worth; 0 sends at Pmax.
    """

    name: OrthogonalName
    seconds_per_joule: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.seconds_per_joule < math.inf:
            raise InputError(
                f"kappa: {self.seconds_per_joule} s/J is not accepted; accepted: 0 or more, finite."
            )


#: What decides who sends at which power.
Sender = Policy | OrthogonalAccess | Ideal


@dataclass(frozen=True)
class Rounds:
    """The channels of one run's N rounds, the same for every policy that is compared.

    Attributes:
        csi: H of all workers, (N, L, L).
        seen: H as the policy sees it, with the scenario's noise, (N, L, L).
        luck: uniform in [0, 1), (N, L); an upload arrives if it is under the PSR.
        present: workers in the federation, (N, L) bool.

    """

    csi: Tensor
    seen: Tensor
    luck: Tensor
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
class Outcome:
    """What happened on the air, round by round.

    Attributes:
        arrived: uploads received without error and in time, (N, L) bool.
        transmitting: workers with p > 0, (N, L) bool.
        airtime_s: from the first bit of the round to its last one, at most the deadline, (N,); 0
            if nobody transmits, NaN where time is not defined (``ideal``).
        energy_j: of all workers, (N,); likewise.
        sent_bytes: put on the air by all workers, (N,) float64.

    """

    arrived: Tensor
    transmitting: Tensor
    airtime_s: Tensor
    energy_j: Tensor
    sent_bytes: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """By name, for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def transmit(
    policy: Sender,
    rounds: Rounds,
    scenario: Scenario,
    bits: Tensor,
    deadline_s: float | None = None,
    packet_success: PacketSuccess = "worst-phase",
) -> Outcome:
    """Let ``policy`` set the powers of all rounds and see what arrives.

    All senders of a round start together, and each leaves the air with its last bit. At
    ``deadline_s`` everybody stops: unfinished uploads are lost, their energy until then is spent.
    ``bits`` is Z, () or (L,).
    """
    if isinstance(policy, Ideal):
        return _lossless(rounds.present, bits)
    upload = _upload(policy, rounds, scenario, bits, deadline_s)
    sinr = upload.sinr if packet_success == "worst-phase" else 1 / upload.mean_inverse_sinr
    arrived = rounds.luck < link.packet_success_rate(sinr, scenario.waterfall)
    energy = link.energy(
        upload.power, upload.airtime_s, bits, scenario.static_power, scenario.compute_energy
    )
    return Outcome(
        arrived=arrived & upload.finished,
        transmitting=upload.power > 0,
        airtime_s=upload.duration_s,
        energy_j=torch.where(rounds.present, energy, 0.0).sum(-1),
        sent_bytes=upload.sent_bits.sum(-1) / 8,
    )


def _upload(
    policy: Policy | OrthogonalAccess,
    rounds: Rounds,
    scenario: Scenario,
    bits: Tensor,
    deadline_s: float | None,
) -> link.Upload:
    csi, bandwidth = rounds.csi.double(), scenario.bandwidth_hz
    if isinstance(policy, OrthogonalAccess):
        access = {"tdma": link.tdma, "ofdma": link.ofdma}[policy.name]
        return access(
            csi,
            rounds.present,
            bits,
            bandwidth,
            scenario.pmax_w,
            scenario.static_power,
            seconds_per_joule=policy.seconds_per_joule,
            deadline_s=deadline_s,
        )
    allocated = allocate_present(policy, rounds.seen, rounds.present)
    # A policy made for another scenario may know another Pmax; this one counts. An absent worker
    # has power 0, so it neither sends nor disturbs.
    power = torch.minimum(allocated, scenario.pmax_w.to(allocated)).double()
    return link.simultaneous_upload(csi, power, bits, bandwidth, deadline_s)


def allocate_present(policy: Policy, csi: Tensor, present: Tensor) -> Tensor:
    """Powers in W, (N, L): the policy sees the workers that are there, as another, smaller L."""
    power = torch.zeros(present.shape, dtype=csi.dtype)
    for workers in torch.tensor(sorted(set(map(tuple, present.tolist())))):
        if not bool(workers.any()):
            continue
        rounds = (present == workers).all(-1).nonzero()[:, 0]
        columns = workers.nonzero()[:, 0]
        smaller = csi[rounds][:, columns][:, :, columns]
        power[rounds[:, None], columns] = policy.allocate(smaller).to(csi.dtype)
    return power


def recorded_rounds(csi: Tensor, count: int, workers: int) -> Tensor:
    """The first ``count`` of recorded channels (N, L, L): one per round of all runs, none twice."""
    check_csi(csi, workers)
    if csi.ndim != 3 or len(csi) < count:
        raise InputError(
            f"channels: {len(csi)} recorded for {count} rounds of all runs; accepted: one per "
            "round, or --resample-channels (channels.resampled_csi) to draw them with replacement."
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


def _lossless(present: Tensor, bits: Tensor) -> Outcome:
    undefined = torch.full((len(present),), torch.nan, dtype=torch.float64)
    sent = (present * bits).sum(-1) / 8
    return Outcome(present.clone(), present.clone(), undefined, undefined.clone(), sent)
