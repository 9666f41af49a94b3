"""Learned schedules: a network proposes phases, a linear program improves and mixes them.

The linear program over the proposed phases and over each worker transmitting alone gives the
durations and the dual prices of the demands. As in column generation, the phases in the basis are
improved at these prices and mixed again.

Small numbers of rounds are solved one by one in NumPy, larger ones together in PyTorch;
:mod:`feduplink.scheduling.array_module` explains why.
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
    MANDATORY_REWARD_S,
    check_rounds,
    demand_of,
    round_batches,
)
from feduplink.scheduling.linear_program import MasterProgram, SingleProgram
from feduplink.scheduling.participation import ensure_a_sender
from feduplink.scheduling.phase_network import (
    NetworkView,
    NetworkWeights,
    PhaseNetwork,
    first_look,
    network_step,
)
from feduplink.scheduling.phases import ascend, best_alone, mixed_phases, phase_cost, phase_rates
from feduplink.storage.tensorfile import read_tensors

#: Lower clamp of costs in divisions, s.
_MIN_COST_S = 1e-6


@dataclass(frozen=True)
class PricedRounds:
    """Channels, demands and prices of rounds, as tensors of N rounds or as arrays of one round.

    Attributes:
        direct: α, (..., L), 1/W.
        cross: β with a zero diagonal, (..., L, L), 1/W.
        pmax_w: maximum transmit power, (L,), W.
        static_power_w: static circuit power P_c, (L,), W.
        demand: w, (..., L), nats/Hz; 0 for workers that do not take part.
        kappa: κ, (..., 1, 1), s/J.
        left_out: cost of leaving a worker out, (..., L), s.
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
        """Combine N channels with demands and prices, as tensors.

        Args:
            batch: N channels.
            demand: w, (N, L), nats/Hz.
            seconds_per_joule: κ, () or (N,), s/J.
            rewards: λ, (L,), s; None if every worker with a demand must send.
        """
        demand = demand.to(batch.direct)
        price = torch.as_tensor(seconds_per_joule).to(demand).expand(len(demand))
        left_out = torch.full_like(demand, MANDATORY_REWARD_S)
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
        """Yield one round of NumPy arrays per channel.

        Args:
            scenario: the radio.
            csi: H, (N, L, L), on the CPU.
            demand: w, (N, L), nats/Hz, a NumPy array.
            seconds_per_joule: κ, s/J.
            rewards: λ, (L,), s; None if every worker with a demand must send.
        """
        gains = csi.numpy().astype(np.float64, order="C")
        workers = gains.shape[-1]
        direct = gains.diagonal(0, -2, -1).copy()
        gains.reshape(len(gains), -1)[:, :: workers + 1] = 0.0
        pmax_w, static_power_w, mandatory = _constants(scenario, workers)
        left_out = mandatory if rewards is None else rewards.numpy() * np.ones(workers)
        kappa = np.array([[seconds_per_joule]])
        for gain, cross, row in zip(direct, gains, demand, strict=True):
            yield cls(gain, cross, pmax_w, static_power_w, row, kappa, left_out)


@functools.lru_cache(maxsize=16)
def _constants(scenario: Scenario, workers: int) -> tuple[Array, Array, Array]:
    """Pmax (W), P_c (W) and the mandatory reward (s) per worker, (L,) each; cached."""
    ones = np.ones(workers)
    radio = scenario.max_power.numpy() * ones, scenario.static_power.numpy() * ones
    return *radio, MANDATORY_REWARD_S * ones


class Phases(NamedTuple):
    """Columns of the linear program.

    Attributes:
        power: (..., K, L), W.
        rates: (..., K, L), nats/s/Hz.
        cost: cost per second, (..., K).
    """

    power: Array
    rates: Array
    cost: Array


class PhaseProposal:
    """Proposed phases of rounds in float64, and the linear program that mixes them.

    Args:
        rounds: channels, demands and prices.
    """

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
        silent = 0 * delivered
        #: Powers of all columns, (..., K, L) W. The first L columns are surplus variables at no
        #: cost, the next L leave one worker out at a cost, the next L are single workers.
        self.power = xp.concatenate((silent, silent, own * best[..., None, :]), -2)
        alone = xp.log1p(rounds.direct * best)
        rates = (silent - own, delivered, own * alone[..., None, :])
        drawn_power = best + takes_part * rounds.static_power_w
        cost = (0 * demand, rounds.left_out, 1 + kappa * drawn_power)
        # The first basis: workers with a demand transmit alone, the others have a surplus of 0.
        self.master: Any = (MasterProgram if xp is TensorOperations else SingleProgram)(
            xp.concatenate(rates, -2),
            xp.concatenate(cost, -1),
            demand,
            xp.indices(demand) + 2 * workers * takes_part,
        )
        self.master.solve()

    def propose(self, weights: NetworkWeights) -> Phases:
        """Add the phases that a network proposes, one per worker, and solve.

        Args:
            weights: the network, of the same kind (tensors or arrays) as the rounds.

        Returns:
            The proposed phases, differentiable in the weights.
        """
        view = NetworkView(self.rounds, self.master.multipliers)
        logits = view.first_logits()
        memory, change = first_look(weights, view.sight(logits))
        logits = logits + change
        for step in weights.steps:
            memory, change = network_step(step, memory, view.sight(logits))
            logits = logits + change
        power, transmits = view.phases(logits)
        # Not phase_cost, whose on/off indicator has no gradient in the gates.
        drawn_power = power + transmits * self.rounds.static_power_w
        cost = 1 + self.rounds.kappa[..., 0] * array_module(drawn_power).sum_along(drawn_power, -1)
        return self._add(Phases(power, phase_rates(self.rounds, power), cost))

    def improve(self) -> Phases:
        """Add the phases of the basis after one ascent step, and solve."""
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
        """Share of its upload that each worker sends in the best mixture, (..., L), in [0, 1]."""
        workers = self.rounds.demand.shape[-1]
        left_out = self.master.column_durations[..., workers : 2 * workers]
        xp = array_module(left_out)
        return 1 - xp.at_most(xp.at_least(left_out, 0.0), 1.0)

    def _phases(self, power: Array) -> Phases:
        """Rates and costs of powers (..., K, L) W."""
        cost = phase_cost(self.rounds, power, self.rounds.kappa[..., 0])
        return Phases(power, phase_rates(self.rounds, power), cost)

    def _add(self, phases: Phases) -> Phases:
        """Add phases as columns, detached from the network, and solve."""
        parts = phases if isinstance(phases.power, np.ndarray) else (p.detach() for p in phases)
        power, rates, cost = parts
        self.power = array_module(power).concatenate((self.power, power), -2)
        self.master.add(rates, cost)
        self.master.solve()
        return phases


def mixing_loss(proposal: PhaseProposal, proposed: Phases, *, unused: float = 0.02) -> Tensor:
    """Scalar whose gradient is that of the mean ln(cost) in the proposed phases.

    By the envelope theorem the cost of the best mixture changes by Σ_k t_k (dc_k − Σ_i λ_i dR_ik).
    The gradient vanishes for phases that are not used. A share ``unused`` of their reduced cost is
    added, so that training makes them useful.

    Args:
        proposal: solved rounds, tensors of N rounds.
        proposed: the phases proposed last.
        unused: weight of the reduced costs.
    """
    master = proposal.master
    count = proposed.cost.shape[-1]
    used = master.column_durations[:, -count:] / master.value[:, None].clamp_min(_MIN_COST_S)
    reduced = proposed.cost - (master.multipliers[:, None] * proposed.rates).sum(-1)
    weight = used + unused / count / proposed.cost.detach()
    loss: Tensor = (weight * reduced).sum(-1).mean()
    return loss


#: Kind of a file of network weights.
_FILE_KIND = "phase network"
#: Number of improvements: one per this many workers, and a minimum.
_WORKERS_PER_IMPROVEMENT = 6
_MIN_IMPROVEMENTS = 2
#: A worker takes part if it sends more than this share of its upload in the relaxed mixture.
_SENDER_SHARE = 0.5
#: Maximum number of rounds that are solved one by one.
_MAX_SINGLE_ROUNDS = 8


@functools.cache
def shipped_phase_network() -> PhaseNetwork:
    """Load the network that comes with the package; cached."""
    file = resources.files("feduplink.scheduling") / "phase_network.safetensors"
    return PhaseNetwork.from_weights(read_tensors(Path(str(file)), _FILE_KIND).tensors)


@functools.lru_cache(maxsize=4)
def _weight_arrays(network: PhaseNetwork) -> NetworkWeights:
    """The network's weights as NumPy arrays; cached."""
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
    """Compute schedules of low time + κ · energy with a trained network.

    Args:
        network: the network, trained for any number of workers.
        scenario: the radio.
        csi: H, (N, L, L), linear, relative to the noise power.
        bits: Z of an upload, a scalar or (L,).
        seconds_per_joule: κ ≥ 0, s/J; 0 minimises the time.
        senders: workers that take part, (N, L) bool; None: all.

    Returns:
        Schedules of at most L phases per channel.

    Raises:
        InputError: if ``csi`` is not (N, L, L), or κ is negative or not finite.
    """
    check_rounds(csi, [seconds_per_joule])
    mixtures = _solve_rounds(
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
    """Choose the senders of rounds with a trained network.

    Workers that send more than half of their upload in the relaxed mixture take part. If there are
    none, the worker with the lowest cost minus reward does.

    Args:
        network: the network, trained for any number of workers.
        scenario: the radio.
        csi: H, (N, L, L), linear, relative to the noise power.
        bits: Z of an upload, a scalar or (L,).
        rewards: λ, reward of a complete upload, (L,), s.
        seconds_per_joule: κ ≥ 0, s/J.
        present: workers that may take part, (N, L) bool; None: all.

    Returns:
        (N, L) bool.

    Raises:
        InputError: if ``csi`` is not (N, L, L), or κ is negative or not finite.
    """
    check_rounds(csi, [seconds_per_joule])
    (shares,) = _solve_rounds(
        network, _shares, scenario, csi, bits, present, seconds_per_joule, rewards
    )
    batch = ChannelBatch.from_scenario(scenario, csi)
    demand = demand_of(scenario, csi, bits, present)
    chosen = (shares > _SENDER_SHARE) & (demand > 0)
    return ensure_a_sender(batch, demand, chosen, rewards, seconds_per_joule)


def _shares(proposal: PhaseProposal) -> tuple[Array]:
    """The shares as a tuple of one result."""
    return (proposal.shares,)


def _solve_rounds(
    network: PhaseNetwork,
    result: Callable[[PhaseProposal], tuple[Array, ...]],
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    senders: Tensor | None,
    kappa: float,
    rewards: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Propose and improve phases for all rounds; return the arrays of ``result``, (N, ...) each."""
    if len(csi) <= _MAX_SINGLE_ROUNDS and csi.is_cpu:
        weights = _weight_arrays(network)
        demands = demand_of(scenario, csi, bits, senders).numpy()
        with np.errstate(over="ignore"):
            found = [
                result(_propose_and_improve(weights, rounds))
                for rounds in PricedRounds.one_by_one(scenario, csi, demands, kappa, rewards)
            ]
        return tuple(torch.from_numpy(np.array(parts)) for parts in zip(*found, strict=True))
    # Not a decorator: for a single round, entering no_grad takes as long as solving it.
    with torch.no_grad():
        weights = network.weights
        found = [
            result(
                _propose_and_improve(
                    weights, PricedRounds.from_batch(batch, demand, kappa, rewards)
                )
            )
            for batch, demand in round_batches(scenario, csi, bits, senders)
        ]
    return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


def _propose_and_improve(weights: NetworkWeights, rounds: PricedRounds) -> PhaseProposal:
    """Let the network propose phases, and improve them."""
    proposal = PhaseProposal(rounds)
    proposal.propose(weights)
    workers = rounds.demand.shape[-1]
    for _ in range(max(_MIN_IMPROVEMENTS, math.ceil(workers / _WORKERS_PER_IMPROVEMENT))):
        proposal.improve()
    return proposal
