"""Phases that a network proposes for rounds, and the best mixture of them.

A linear program over the phases, and over everyone alone, gives their durations, and what each
worker's bits cost: at these prices the phases in use are improved, as column generation does, and
mixed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch
from feduplink.schedule.array_module import (
    Array,
    array_like,
    array_module,
    at_least,
    at_most,
    in_double,
    in_single,
    stack_last,
)
from feduplink.schedule.master_program import MasterProgram
from feduplink.schedule.mixture import mixed_phases, phase_cost, phase_rates
from feduplink.schedule.phase_ascent import ascend, best_alone
from feduplink.schedule.phase_network import (
    CHANGING_SIZES,
    FIXED_SIZES,
    STEPS,
    first_look,
    network_step,
)
from feduplink.schedule.round_batches import ALWAYS_S
from feduplink.schedule.single_program import SingleProgram

_SMALL, _TINY, _LARGE = 1e-3, 1e-6, 3.0
#: Lowest power on the air, relative to Pmax, and lowest that the network starts from, in logs.
_LOWEST = 1e-6
_START = -6.0


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

    def one_round(self, number: int) -> PricedRounds:
        """One of the rounds, as arrays."""

        def of_round(name: str) -> Array:
            tensor = getattr(self, name)
            return (tensor if name in ("pmax_w", "static_power_w") else tensor[number]).numpy()

        return PricedRounds(*(of_round(field.name) for field in fields(self)))

    def in_single(self) -> PricedRounds:
        """The same in float32, for the network."""
        return PricedRounds(*(in_single(getattr(self, field.name)) for field in fields(self)))


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
        self._takes_part = (demand > 0)[..., None, :]
        workers = demand.shape[-1]
        own = xp.eye(workers, dtype=demand.dtype, device=demand.device)
        best = best_alone(rounds, rounds.kappa[..., 0])
        alone = self._phases(own * best[..., None, :] * self._takes_part)
        delivered = own * demand[..., None, :]
        nobody = 0 * delivered
        #: Powers of all columns, (..., K, L) W. Of the first L there may be a surplus for nothing;
        #: the next L leave a worker out, at a price.
        self.power = xp.concatenate((nobody, nobody, alone.power), -2)
        rates = (nobody - own, delivered, alone.rates)
        cost = (0 * demand, rounds.left_out, alone.cost)
        index = xp.arange(workers, device=demand.device)
        self.master: Any = (MasterProgram if xp is torch else SingleProgram)(
            xp.concatenate(rates, -2),
            xp.concatenate(cost, -1),
            demand,
            xp.where(demand > 0, index + 2 * workers, index),
        )
        self.master.solve()

    def propose(self, weights: Mapping[str, Array]) -> Phases:
        """Let a network propose a phase for every worker, and solve."""
        view = _NetworkView(self.rounds.in_single(), in_single(self.master.multipliers))
        logits = view.first_logits()
        memory, change = first_look(weights, view.features(logits)[0])
        logits = logits + change
        for number in range(STEPS):
            features, share = view.features(logits)
            memory, change = network_step(weights, number, memory, features, share)
            logits = logits + change
        power, on_air = (in_double(values) for values in view.powers(logits)[:2])
        # Not by phase_cost: gates have slopes, which being on the air or not has none of.
        drawn = power + on_air * self.rounds.static_power_w
        cost = 1 + self.rounds.kappa[..., 0] * drawn.sum(-1)
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
    """What the network sees of rounds in float32, at prices λ (..., L) of the workers' rates."""

    def __init__(self, rounds: PricedRounds, multipliers: Array) -> None:
        self._rounds = rounds
        xp = array_module(multipliers)
        workers = multipliers.shape[-1]
        self._own = xp.eye(workers, dtype=multipliers.dtype, device=multipliers.device)
        self._everyone = self._own.sum(-1)
        self._takes_part = (rounds.demand > 0)[..., None, :]
        price = self._price = at_least(multipliers, 0.0)[..., None, :]
        gain = xp.log(rounds.direct * rounds.pmax_w)
        towards = xp.log(rounds.cross * rounds.pmax_w + _TINY)
        paid = price * at_least(rounds.demand, _TINY)[..., None, :]
        columns = (
            gain[..., None, :],
            gain[..., :, None],
            towards,
            towards.mT,
            self._own,
            xp.log(at_least(paid, _SMALL)),
            xp.log(price + _SMALL),
            xp.log(rounds.kappa * rounds.static_power_w + _SMALL),
        )
        fixed = stack_last([column + 0 * towards for column in columns])
        self._fixed = fixed / array_like(FIXED_SIZES, fixed)
        self._sizes = array_like(CHANGING_SIZES, fixed)

    def first_logits(self) -> Array:
        """Everyone received alike, but for the one whose phase it is, (..., K, L, 2)."""
        xp = array_module(self._own)
        received = xp.log(self._rounds.direct * self._rounds.pmax_w)
        level = (xp.amin(received, -1)[..., None] - received)[..., None, :]
        level = at_least(level * (1 - self._own), _START)
        return stack_last((level, 0 * level))

    def powers(self, logits: Array) -> tuple[Array, Array, Array]:
        """Powers (..., K, L) W, gates that are 0 or 1 with slopes of soft ones, and ln p / Pmax."""
        xp = array_module(logits)
        log_power = _log_sigmoid(logits[..., 0])
        relative = at_most(_LOWEST + xp.exp(log_power), 1.0)
        on_air = (logits[..., 1] > 0) * self._everyone
        if xp is torch:
            soft = torch.sigmoid(logits[..., 1])
            on_air = on_air + soft - soft.detach()
        on_air = (self._own + (1 - self._own) * on_air) * self._takes_part
        return self._rounds.pmax_w * relative * on_air, on_air, log_power

    def features(self, logits: Array) -> tuple[tuple[Array, Array], Array]:
        """Of every worker in every phase, (..., K, L, ·), and the shares of interference."""
        rounds, price, xp = self._rounds, self._price, array_module(logits)
        kappa = rounds.kappa
        power, on_air, log_power = self.powers(logits)
        interference = 1 + power @ rounds.cross.mT
        would = rounds.pmax_w * xp.exp(log_power)
        sinr = rounds.direct[..., None, :] * would / interference
        by_sinr = price * (sinr / (1 + sinr))
        harm = would * ((on_air * by_sinr / interference) @ rounds.cross + kappa)
        value = price * xp.log1p(sinr) - kappa * (would + rounds.static_power_w)
        excess = (on_air * value).sum(-1)[..., None] - 1
        share = rounds.cross[..., None, :, :] * (power[..., None, :] / interference[..., None])
        changing = (
            log_power,
            xp.log(interference),
            on_air,
            xp.log(by_sinr + _TINY),
            xp.log(harm + _TINY),
            at_most(at_least(value, -_LARGE), _LARGE),
            at_most(harm, _LARGE),
            at_most(excess, _LARGE) + 0 * value,
        )
        return (self._fixed, stack_last(changing) / self._sizes), share


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


def _log_sigmoid(values: Array) -> Array:
    xp = array_module(values)
    return at_most(values, 0.0) - xp.log1p(xp.exp(-abs(values)))
