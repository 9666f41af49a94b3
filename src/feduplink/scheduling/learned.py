"""Learned schedules: phases proposed by a network, improved and mixed by the linear program.

A linear program over the phases, and over everyone alone, gives their durations, and what each
worker's bits cost: at these prices the phases in use are improved, as column generation does, and
mixed again.

Few rounds are solved one by one in NumPy, many at once in PyTorch (array_module.py says why).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch
from feduplink.link import Schedule
from feduplink.scenario import Scenario
from feduplink.scheduling.array_module import Array, TensorOperations, array_module
from feduplink.scheduling.column_generation import (
    ALWAYS_S,
    check_rounds,
    demand_of,
    round_batches,
)
from feduplink.scheduling.linear_program import MasterProgram, SingleProgram
from feduplink.scheduling.participation import with_somebody
from feduplink.scheduling.phase_network import (
    NetworkView,
    NetworkWeights,
    PhaseNetwork,
    first_look,
    network_step,
)
from feduplink.scheduling.phases import ascend, best_alone, mixed_phases, phase_cost, phase_rates
from feduplink.storage.tensorfile import read_tensors

#: In the place of a cost of 0.
_TINY = 1e-6


@dataclass(frozen=True)
class PricedRounds:
    """Channels of rounds and what is wanted of them, as tensors of N rounds or arrays of one.

    Attributes:
        direct: α, (..., L).
        cross: β with a zero diagonal, (..., L, L).
        pmax_w, static_power_w: of every worker, (L,) W.
        demand: w, (..., L) nats/Hz; 0 for who does not take part.
        kappa: κ, (..., 1, 1) s/J.
        left_out: what it costs to leave a worker out, (..., L) s.
    """

    direct: Array
    cross: Array
    pmax_w: Array
    static_power_w: Array
    demand: Array
    kappa: Array
    left_out: Array

    @classmethod
    def from_batch(
        cls,
        batch: ChannelBatch,
        demand: Tensor,
        seconds_per_joule: float | Tensor,
        rewards: Tensor | None = None,
    ) -> PricedRounds:
        """Those of a batch; κ () or (N,), rewards λ (L,) s or None, if nobody may be left out."""
        demand = demand.to(batch.direct)
        price = torch.as_tensor(seconds_per_joule).to(demand).expand(len(demand))
        left_out = torch.full_like(demand, ALWAYS_S)
        if rewards is not None:
            left_out = rewards.to(demand).expand_as(demand)
        return cls(
            batch.direct,
            batch.cross,
            batch.pmax_w,
            batch.static_power_w,
            demand,
            price[:, None, None],
            left_out,
        )

    @classmethod
    def one_by_one(
        cls,
        scenario: Scenario,
        csi: Tensor,
        demand: Array,
        seconds_per_joule: float,
        rewards: Tensor | None = None,
    ) -> Iterator[PricedRounds]:
        """Those of channels (N, L, L) and demands (N, L) one by one, as arrays."""
        gains = csi.numpy().astype(np.float64, order="C")
        workers = gains.shape[-1]
        direct = gains.diagonal(0, -2, -1).copy()
        gains.reshape(len(gains), -1)[:, :: workers + 1] = 0.0
        pmax_w, static_power_w, always = _constants(scenario, workers)
        left_out = always if rewards is None else rewards.numpy() * np.ones(workers)
        kappa = np.array([[seconds_per_joule]])
        for gain, cross, wanted in zip(direct, gains, demand, strict=True):
            yield cls(gain, cross, pmax_w, static_power_w, wanted, kappa, left_out)


@functools.lru_cache(maxsize=16)
def _constants(scenario: Scenario, workers: int) -> tuple[Array, Array, Array]:
    """Pmax, P_c, and what it costs to leave out who has to send, (L,) each."""
    everyone = np.ones(workers)
    radio = scenario.max_power.numpy() * everyone, scenario.static_power.numpy() * everyone
    return *radio, ALWAYS_S * everyone


class Phases(NamedTuple):
    """Phases that can be mixed: powers (..., K, L) W, rates (..., K, L) and costs (..., K)."""

    power: Array
    rates: Array
    cost: Array


class PhaseProposal:
    """The phases that are known of rounds in float64, and their best mixture."""

    def __init__(self, rounds: PricedRounds) -> None:
        self.rounds = rounds
        demand, xp = rounds.demand, array_module(rounds.demand)
        takes_part = demand > 0
        self._takes_part = takes_part[..., None, :]
        workers = demand.shape[-1]
        own = xp.identity(demand)
        kappa = rounds.kappa[..., 0]
        best = best_alone(rounds, kappa) * takes_part
        delivered = own * demand[..., None, :]
        nobody = 0 * delivered
        #: Powers of all columns, (..., K, L) W. Of the first L there may be a surplus for nothing;
        #: the next L leave a worker out, at a price; then everyone is alone.
        self.power = xp.concatenate((nobody, nobody, own * best[..., None, :]), -2)
        alone = xp.log1p(rounds.direct * best)
        rates = (nobody - own, delivered, own * alone[..., None, :])
        drawn = best + takes_part * rounds.static_power_w
        cost = (0 * demand, rounds.left_out, 1 + kappa * drawn)
        # At the start everyone is alone, or there is a surplus of nothing.
        self.master: Any = (MasterProgram if xp is TensorOperations else SingleProgram)(
            xp.concatenate(rates, -2),
            xp.concatenate(cost, -1),
            demand,
            xp.indices(demand) + 2 * workers * takes_part,
        )
        self.master.solve()

    def propose(self, weights: NetworkWeights) -> Phases:
        """Let a network propose a phase for every worker, and solve."""
        view = NetworkView(self.rounds, self.master.multipliers)
        logits = view.first_logits()
        memory, change = first_look(weights, view.sight(logits))
        logits = logits + change
        for step in weights.steps:
            memory, change = network_step(step, memory, view.sight(logits))
            logits = logits + change
        power, on_air = view.phases(logits)
        # Not by phase_cost: gates have slopes, which being on the air or not has none of.
        drawn = power + on_air * self.rounds.static_power_w
        cost = 1 + self.rounds.kappa[..., 0] * array_module(drawn).sum_along(drawn, -1)
        return self._add(Phases(power, phase_rates(self.rounds, power), cost))

    def improve(self) -> Phases:
        """Add phases a step above those in use, and solve."""
        prices = array_module(self.power).at_least(self.master.multipliers, 0.0)
        power = ascend(self.rounds, self.phases, prices, self.rounds.kappa)
        return self._add(self._phases(power * self._takes_part))

    @property
    def phases(self) -> Array:
        """Powers of the phases in the basis, (..., L, L) W."""
        return self.master.of_basis(self.power)

    def mixture(self) -> tuple[Array, Array]:
        """Durations (..., L) s and powers (..., L, L) W of the best mixture."""
        return mixed_phases(self.rounds, self.phases, self.master.durations, self.rounds.demand)

    @property
    def shares(self) -> Array:
        """What share of its model each worker sends in the best mixture, (..., L)."""
        workers = self.rounds.demand.shape[-1]
        left_out = self.master.column_durations[..., workers : 2 * workers]
        xp = array_module(left_out)
        return 1 - xp.at_most(xp.at_least(left_out, 0.0), 1.0)

    def _phases(self, power: Array) -> Phases:
        cost = phase_cost(self.rounds, power, self.rounds.kappa[..., 0])
        return Phases(power, phase_rates(self.rounds, power), cost)

    def _add(self, phases: Phases) -> Phases:
        parts = phases if isinstance(phases.power, np.ndarray) else (p.detach() for p in phases)
        power, rates, cost = parts
        self.power = array_module(power).concatenate((self.power, power), -2)
        self.master.add(rates, cost)
        self.master.solve()
        return phases


def mixing_loss(proposal: PhaseProposal, proposed: Phases, *, unused: float = 0.02) -> Tensor:
    """A scalar with the slope of the mean ln(cost) in all that was proposed last.

    By the envelope theorem the cost of the best mixture changes by Σ_k t_k (dc_k − Σ_i λ_i dR_ik).
    Phases that are not used have no slope there; ``unused`` of their reduced cost makes them worth
    using.
    """
    master = proposal.master
    count = proposed.cost.shape[-1]
    used = master.column_durations[:, -count:] / master.value[:, None].clamp_min(_TINY)
    reduced = proposed.cost - (master.multipliers[:, None] * proposed.rates).sum(-1)
    weight = used + unused / count / proposed.cost.detach()
    loss: Tensor = (weight * reduced).sum(-1).mean()
    return loss


#: What a file of weights says it is.
_KIND = "phase network"
#: The phases in use are improved once for so many workers, and so often at least.
_WORKERS_PER_STEP = 6
_LEAST_STEPS = 2
#: The share of its model from which on a worker sends all of it.
_SENDS = 0.5
#: Up to so many rounds are solved one by one.
_FEW = 8


@functools.cache
def shipped_phase_network() -> PhaseNetwork:
    """The network that comes with the package."""
    file = resources.files("feduplink.scheduling") / "phase_network.safetensors"
    return PhaseNetwork.from_weights(read_tensors(Path(str(file)), _KIND).tensors)


@functools.lru_cache(maxsize=4)
def _weight_arrays(network: PhaseNetwork) -> NetworkWeights:
    return network.weights.arrays()


def learned_schedules(
    network: PhaseNetwork,
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    *,
    seconds_per_joule: float = 0.0,
    senders: Tensor | None = None,
) -> Schedule:
    """Schedules of little time + κ · energy for channels (N, L, L); arguments as of the search."""
    check_rounds(csi, [seconds_per_joule])
    mixtures = _solved(
        network, PhaseProposal.mixture, scenario, csi, bits, senders, seconds_per_joule
    )
    return Schedule(*mixtures)


@torch.no_grad()
def learned_senders(
    network: PhaseNetwork,
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    rewards: Tensor,
    *,
    seconds_per_joule: float = 0.0,
    present: Tensor | None = None,
) -> Tensor:
    """Who takes part at rewards λ, (L,) s, by the shares of the mixtures, (N, L) bool."""
    check_rounds(csi, [seconds_per_joule])
    (shares,) = _solved(network, _shares, scenario, csi, bits, present, seconds_per_joule, rewards)
    batch = ChannelBatch.from_scenario(scenario, csi)
    demand = demand_of(scenario, csi, bits, present)
    chosen = (shares > _SENDS) & (demand > 0)
    return with_somebody(batch, demand, chosen, rewards, seconds_per_joule)


def _shares(proposal: PhaseProposal) -> tuple[Array]:
    return (proposal.shares,)


def _solved(
    network: PhaseNetwork,
    result: Callable[[PhaseProposal], tuple[Array, ...]],
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    senders: Tensor | None,
    kappa: float,
    rewards: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """``result`` of what the network proposes for all rounds, improved, (N, ...) each."""
    if len(csi) <= _FEW and csi.is_cpu:
        weights = _weight_arrays(network)
        demands = demand_of(scenario, csi, bits, senders).numpy()
        with np.errstate(over="ignore"):
            found = [
                result(_improved(weights, rounds))
                for rounds in PricedRounds.one_by_one(scenario, csi, demands, kappa, rewards)
            ]
        return tuple(torch.from_numpy(np.array(parts)) for parts in zip(*found, strict=True))
    # Here and not around the function: for a round alone the switch takes as long as its mixture.
    with torch.no_grad():
        weights = network.weights
        found = [
            result(_improved(weights, PricedRounds.from_batch(batch, demand, kappa, rewards)))
            for batch, demand in round_batches(scenario, csi, bits, senders)
        ]
    return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


def _improved(weights: NetworkWeights, rounds: PricedRounds) -> PhaseProposal:
    """What the network proposes, improved."""
    proposal = PhaseProposal(rounds)
    proposal.propose(weights)
    workers = rounds.demand.shape[-1]
    for _ in range(max(_LEAST_STEPS, math.ceil(workers / _WORKERS_PER_STEP))):
        proposal.improve()
    return proposal
