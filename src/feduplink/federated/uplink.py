"""What the radio does to a federation: who is heard in which round, and what it costs.

Nothing here depends on the models, so all rounds of a run are settled before training starts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import draw_csi, noisy_csi
from feduplink.policies.base import Policy
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

BITS_PER_WEIGHT = 32
CRC_BITS = 32


class Ideal:
    """Stands for a policy where every upload arrives; time and energy are not defined."""

    name = "ideal"


def model_bits(weights: int) -> int:
    """Z, the bits of one upload: the weights and their checksum."""
    return BITS_PER_WEIGHT * weights + CRC_BITS


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
    def draw(cls, scenario: Scenario, present: Tensor, *, seed: int, run: int) -> Rounds:
        """The rounds of run ``run``; positions and fading persist as the scenario says."""
        rounds, workers = present.shape
        csi = draw_csi(scenario, rounds, torch_generator(seed, "round-channels", run))
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
        airtime_s: the slowest transmitting worker's τ, at most the deadline, (N,); 0 if nobody
            transmits, NaN where time is not defined (``ideal``).
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
    policy: Policy | Ideal,
    rounds: Rounds,
    scenario: Scenario,
    bits: int,
    deadline_s: float | None = None,
) -> Outcome:
    """Let ``policy`` set the powers of all rounds and see what arrives.

    A worker that would take longer than ``deadline_s`` stops there: its upload is lost, its
    energy until then is spent.
    """
    if isinstance(policy, Ideal):
        return _lossless(rounds.present, bits)
    allocated = allocate_present(policy, rounds.seen, rounds.present)
    # A policy made for another scenario may know another Pmax; this one counts.
    power = allocated.clamp_max(scenario.pmax_w).double()
    on_air = power > 0
    # An absent worker has power 0, so it neither sends nor disturbs.
    sinr = link.sinr(rounds.csi.double(), power)
    arrived = rounds.luck < link.packet_success_rate(sinr, scenario.waterfall)
    needed_s = torch.where(on_air, link.airtime(sinr, bits, scenario.bandwidth_hz), 0.0)
    spent_s = needed_s
    if deadline_s is not None:
        arrived &= needed_s <= deadline_s
        spent_s = needed_s.clamp_max(deadline_s)
    energy = link.energy(
        power, spent_s, bits, scenario.static_power_w, scenario.compute_energy_j_per_bit
    )
    share_sent = torch.where(on_air, spent_s / needed_s, 0.0)
    return Outcome(
        arrived=arrived & on_air,
        transmitting=on_air,
        airtime_s=spent_s.amax(-1),
        energy_j=torch.where(rounds.present, energy, 0.0).sum(-1),
        sent_bytes=share_sent.sum(-1) * bits / 8,
    )


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


def _lossless(present: Tensor, bits: int) -> Outcome:
    undefined = torch.full((len(present),), torch.nan, dtype=torch.float64)
    sent = present.sum(-1).double() * bits / 8
    return Outcome(present.clone(), present.clone(), undefined, undefined.clone(), sent)
