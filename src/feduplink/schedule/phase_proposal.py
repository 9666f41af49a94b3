"""Phases that a network proposes for rounds, and the best mixture of them.

A linear program over the phases, and over everyone alone, gives their durations, and what each
worker's bits cost: at these prices the phases in use are improved, as column generation does, and
mixed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch
from feduplink.scenario import Scenario
from feduplink.schedule.array_module import (
    Array,
    array_module,
    at_least,
    at_most,
    identity,
    in_double,
    in_single,
    largest,
    stack_last,
    sum_along,
)
from feduplink.schedule.master_program import MasterProgram
from feduplink.schedule.mixture import mixed_phases, phase_cost, phase_rates
from feduplink.schedule.phase_ascent import ascend, best_alone
from feduplink.schedule.phase_network import (
    STEPS,
    NetworkWeights,
    first_look,
    network_step,
    see_fixed,
)
from feduplink.schedule.round_batches import ALWAYS_S
from feduplink.schedule.single_program import SingleProgram

_SMALL, _TINY, _LARGE = 1e-3, 1e-6, 3.0
#: Lowest power on the air, relative to Pmax, and lowest that the network starts from, in logs.
_LOWEST = 1e-6
_START = -6.0
#: Powers under e to minus this of Pmax are not told apart.
_LEAST_LOGIT = 40.0


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
        gains = csi.numpy().astype(np.float64)
        everyone = np.ones(gains.shape[-1])
        pmax_w = scenario.pmax_w.numpy() * everyone
        static_power_w = scenario.static_power.numpy() * everyone
        left_out = ALWAYS_S * everyone if rewards is None else rewards.numpy() * everyone
        kappa = np.array([[seconds_per_joule]])
        others = 1 - identity(everyone)
        for gain, wanted in zip(gains, demand, strict=True):
            direct, cross = gain.diagonal(), gain * others
            yield cls(direct, cross, pmax_w, static_power_w, wanted, kappa, left_out)

    def in_single(self) -> PricedRounds:
        """The same in float32, for the network."""
        return PricedRounds(*map(in_single, vars(self).values()))


@dataclass(frozen=True)
class Phases:
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
        own = identity(demand)
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
        index = xp.arange(workers, device=demand.device)
        self.master: Any = (MasterProgram if xp is torch else SingleProgram)(
            xp.concatenate(rates, -2),
            xp.concatenate(cost, -1),
            demand,
            index + 2 * workers * takes_part,
        )
        self.master.solve()

    def propose(self, weights: NetworkWeights) -> Phases:
        """Let a network propose a phase for every worker, and solve."""
        view = _NetworkView(self.rounds.in_single(), in_single(self.master.multipliers))
        fixed = see_fixed(weights, view.fixed)
        logits = view.first_logits()
        memory, change = first_look(weights, fixed[0], view.changing(logits)[0])
        logits = logits + change
        for number in range(STEPS):
            changing, share = view.changing(logits)
            memory, change = network_step(
                weights, number, memory, fixed[number + 1], changing, share
            )
            logits = logits + change
        power, on_air = (in_double(values) for values in view.powers(logits)[:2])
        # Not by phase_cost: gates have slopes, which being on the air or not has none of.
        drawn = power + on_air * self.rounds.static_power_w
        cost = 1 + self.rounds.kappa[..., 0] * sum_along(drawn)
        return self._add(Phases(power, phase_rates(self.rounds, power), cost))

    def improve(self) -> Phases:
        """Add phases a step above those in use, and solve."""
        prices = at_least(self.master.multipliers, 0.0)
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
        return 1 - at_most(at_least(left_out, 0.0), 1.0)

    def _phases(self, power: Array) -> Phases:
        cost = phase_cost(self.rounds, power, self.rounds.kappa[..., 0])
        return Phases(power, phase_rates(self.rounds, power), cost)

    def _add(self, phases: Phases) -> Phases:
        parts = [_constant(part) for part in (phases.power, phases.rates, phases.cost)]
        self.power = array_module(parts[0]).concatenate((self.power, parts[0]), -2)
        self.master.add(*parts[1:])
        self.master.solve()
        return phases


class _NetworkView:
    """What the network sees of rounds in float32, at prices λ (..., L) of the workers' rates.

    Attributes:
        fixed: of every worker in every phase what stays, (..., K, L, 8).
    """

    def __init__(self, rounds: PricedRounds, multipliers: Array) -> None:
        self._rounds = rounds
        xp = array_module(multipliers)
        own = self._own = identity(multipliers)
        # On the air for sure, and if the network says so.
        takes_part = (rounds.demand > 0)[..., None, :]
        self._sure, self._maybe = own * takes_part, (1 - own) * takes_part
        price = self._price = at_least(multipliers, 0.0)[..., None, :]
        self._received = rounds.direct * rounds.pmax_w
        self._static_cost = rounds.kappa * rounds.static_power_w
        gain = self._gain = xp.log(self._received)
        towards = xp.log(rounds.cross * rounds.pmax_w + _TINY)
        paid = price * at_least(rounds.demand, _TINY)[..., None, :]
        columns = (
            gain[..., None, :],
            gain[..., :, None],
            towards,
            towards.mT,
            own,
            xp.log(at_least(paid, _SMALL)),
            xp.log(price + _SMALL),
            xp.log(self._static_cost + _SMALL),
        )
        self.fixed = stack_last(columns, towards)

    def first_logits(self) -> Array:
        """Everyone received alike, but for the one whose phase it is, (..., K, L, 2)."""
        level = (-largest(-self._gain)[..., None] - self._gain)[..., None, :]
        level = at_least(level * (1 - self._own), _START)
        return stack_last((level, 0 * level), level)

    def powers(self, logits: Array) -> tuple[Array, Array, Array, Array]:
        """Powers (..., K, L) W, gates that are 0 or 1 with slopes of soft ones, p and ln p / Pmax.

        The latter as if everyone sent.
        """
        xp = array_module(logits)
        inverse = 1 + xp.exp(at_most(-logits[..., 0], _LEAST_LOGIT))
        would = 1 / inverse
        gate = logits[..., 1] > 0
        if xp is torch:
            soft = torch.sigmoid(logits[..., 1])
            gate = gate + soft - soft.detach()
        on_air = self._sure + self._maybe * gate
        power = self._rounds.pmax_w * at_most(_LOWEST + would, 1.0) * on_air
        return power, on_air, would, -xp.log(inverse)

    def changing(self, logits: Array) -> tuple[Array, Array]:
        """Of every worker in every phase what changes, (..., K, L, 8), and whose interference."""
        rounds, price, xp = self._rounds, self._price, array_module(logits)
        kappa, cross = rounds.kappa, rounds.cross
        power, on_air, would, log_power = self.powers(logits)
        interference = 1 + power @ cross.mT
        sinr = self._received[..., None, :] * would / interference
        received = 1 + sinr
        by_sinr = price * (sinr / received)
        would = rounds.pmax_w * would
        harm = would * ((on_air * by_sinr / interference) @ cross + kappa)
        value = price * xp.log(received) - (kappa * would + self._static_cost)
        excess = sum_along(on_air * value)[..., None] - 1
        share = cross[..., None, :, :] * (power[..., None, :] / interference[..., None])
        changing = (
            log_power,
            xp.log(interference),
            on_air,
            xp.log(by_sinr + _TINY),
            xp.log(harm + _TINY),
            at_most(at_least(value, -_LARGE), _LARGE),
            at_most(harm, _LARGE),
            at_most(excess, _LARGE),
        )
        return stack_last(changing, power), share


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


def _constant(values: Array) -> Array:
    return values.detach() if isinstance(values, Tensor) else values
