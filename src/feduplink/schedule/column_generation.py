"""The schedule of least time + κ · energy, by column generation on the Lagrangian maximiser.

A second at powers p delivers R(p) and costs 1 + κ Σ_{i on} (p_i + P_c,i). Over all powers at once
the best schedule is a linear program with one row per worker, so at most L phases do. Its dual
prices what a worker delivers by λ_i; the powers that would lower the cost most are those of the
largest

    Σ_i λ_i R_i(p) − κ Σ_{i on} (p_i + P_c,i),

a Lagrangian of :mod:`feduplink.lagrangian`. Where that is at most 1, nothing can be improved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices, climb, improve, starting_points
from feduplink.link import Schedule
from feduplink.link.orthogonal import power_alone
from feduplink.schedule.master_program import MasterProgram
from feduplink.schedule.mixture import mixed_schedule, phase_rates

#: Iterations at most; a few dozen are usual.
_ITERATIONS = 300
#: Of these, one in so many looks for other senders; the rest only move powers.
_SWEEP_EVERY = 3
_NEWTON_STEPS = 2
#: Cost of leaving out who has to take part, s.
_NEVER = 1e30


@dataclass(frozen=True, repr=False)
class ScheduleSolution:
    """The best schedules that were found for N channels, and what the linear program says of them.

    Attributes:
        schedule: L phases of every round, most senders first; those of no length are silent.
        cost: time + κ · energy, (N,) s.
        multipliers: λ, what it costs worker i to deliver one more nat/Hz, (N, L) s.
        demand: w, what it has to deliver, (N, L) nats/Hz.
        seconds_per_joule: κ.
        excess: by how much the largest Lagrangian that was found exceeds 1, (N,).
    """

    schedule: Schedule
    cost: Tensor
    multipliers: Tensor
    demand: Tensor
    seconds_per_joule: float
    excess: Tensor

    def __repr__(self) -> str:
        """How many, and what they cost on average."""
        return (
            f"ScheduleSolution({len(self.cost)} channels, {self.seconds_per_joule:g} s/J, "
            f"mean cost {float(self.cost.mean()):.4g} s)"
        )

    def prices(self, batch: ChannelBatch) -> Prices:
        """Those of the Lagrangian that no powers may bring above 1."""
        return phase_prices(batch, self.multipliers, self.seconds_per_joule)

    @classmethod
    def concat(cls, parts: Sequence[ScheduleSolution]) -> ScheduleSolution:
        """All channels of several solutions of the same κ."""
        tensors = {
            name: torch.cat([getattr(part, name) for part in parts])
            for name in ("cost", "multipliers", "demand", "excess")
        }
        schedule = Schedule.concat([part.schedule for part in parts])
        return cls(schedule, seconds_per_joule=parts[0].seconds_per_joule, **tensors)


def phase_prices(batch: ChannelBatch, multipliers: Tensor, seconds_per_joule: float) -> Prices:
    """λ on the rates, κ on power and κ P_c on being on the air."""
    free = torch.zeros_like(batch.pmax_w)
    return Prices(
        success=free,
        rate=multipliers.clamp_min(0.0),
        efficiency=free,
        activation_cost=seconds_per_joule * batch.static_power_w,
        power_cost=seconds_per_joule + free if seconds_per_joule > 0 else None,
    )


class ColumnGeneration:
    """Finds the best schedules of N channels, κ after κ: columns found for one serve the next.

    Args:
        batch: the channels.
        demand: w = Z ln 2 / B, what every worker has to deliver, (N, L) nats/Hz; 0 for those that
            do not take part.
    """

    def __init__(self, batch: ChannelBatch, demand: Tensor) -> None:
        self.batch, self.demand = batch, demand
        workers = demand.shape[-1]
        self.takes_part = demand > 0
        nobody = torch.zeros(len(demand), 2 * workers, workers).to(demand)
        alone = torch.where(self.takes_part[:, None], torch.diag(batch.pmax_w), 0.0)
        #: Powers of all columns, (N, K, L). The first L deliver less, for nothing; the next L leave
        #: a worker out, at a price.
        self.power = torch.cat((nobody, alone), 1)
        rates = phase_rates(batch, self.power)
        rates[:, :workers] = -torch.eye(workers).to(rates)
        rates[:, workers : 2 * workers] = torch.diag_embed(demand)
        first = torch.arange(workers, device=demand.device)
        basis = torch.where(self.takes_part, first + 2 * workers, first)
        self.master = MasterProgram(rates, self._cost(self.power, 0.0), demand, basis)
        self._reprice(0.0)

    def add_phases(self, power: Tensor, seconds_per_joule: float) -> None:
        """Powers (N, M, L) W that the next solution may use."""
        self._add(power, seconds_per_joule)

    @property
    def phases(self) -> Tensor:
        """Powers of the phases in the basis, (N, L, L) W."""
        workers = self.demand.shape[-1]
        return self.power.gather(1, self.master.basis[..., None].expand(-1, -1, workers))

    def solve(self, seconds_per_joule: float, *, tolerance: float = 1e-3) -> ScheduleSolution:
        """The best schedules, until no Lagrangian that is found exceeds 1 + ``tolerance``."""
        self._reprice(seconds_per_joule)
        excess = self._generate(seconds_per_joule, tolerance)
        return self._solution(seconds_per_joule, excess)

    def shares(
        self, seconds_per_joule: float, rewards: Tensor, *, tolerance: float = 1e-3
    ) -> tuple[Tensor, Tensor]:
        """What share of its model each worker should send, if a whole one is rewarded.

        The least time + κ · energy + Σ_i λ_i (1 − x_i) over shares x in [0, 1], and the shares:
        where they are 0 or 1, as most are, no choice of senders is better.

        Args:
            seconds_per_joule: κ.
            rewards: λ, (L,) or (N, L) s.
            tolerance: as for :meth:`solve`.

        Returns:
            The least cost, (N,) s, and the shares, (N, L).
        """
        self._reprice(seconds_per_joule, rewards)
        self._generate(seconds_per_joule, tolerance)
        workers = self.demand.shape[-1]
        left_out = torch.zeros_like(self.master.cost)
        left_out.scatter_(1, self.master.basis, self.master.durations)
        shares = 1 - left_out[:, workers : 2 * workers].clamp(0.0, 1.0)
        return self.master.value, torch.where(self.takes_part, shares, 0.0)

    def _generate(self, kappa: float, tolerance: float) -> Tensor:
        """Add columns until none is found that would lower the cost; the excess left, (N,)."""
        batch, master = self.batch, self.master
        alone = power_alone(batch.direct, batch.pmax_w, batch.static_power_w, kappa)
        self._add(torch.diag_embed(alone), kappa)
        excess = torch.full_like(batch.direct[:, 0], torch.inf)
        for iteration in range(_ITERATIONS):
            master.solve()
            rows = (excess > tolerance).nonzero()[:, 0]
            if len(rows) == 0:
                break
            found, above = self._better_phases(rows, kappa, sweep=iteration % _SWEEP_EVERY == 0)
            quiet = above <= tolerance
            if bool(quiet.any()):
                more, higher = self._phases_from_afar(rows[quiet], kappa)
                above[quiet] = torch.maximum(above[quiet], higher)
                wider = found.new_zeros(len(rows), more.shape[1], found.shape[-1])
                wider[quiet] = more
                found = torch.cat((found, wider), 1)
            excess[rows] = above
            columns = found.new_zeros(len(excess), *found.shape[1:])
            columns[rows] = found
            self._add(columns, kappa)
        return excess

    def _better_phases(self, rows: Tensor, kappa: float, *, sweep: bool) -> tuple[Tensor, Tensor]:
        """Powers (M, L, L) W climbed to from the phases of the schedules, and their excess (M,)."""
        basis = self.master.basis[rows]
        start = self.power[rows[:, None], basis]
        workers = start.shape[-1]
        flat = rows.repeat_interleave(workers)
        prices = phase_prices(self.batch, self.master.multipliers[flat], kappa)
        batch = self.batch.take(flat)
        power = start.reshape(-1, workers)
        if sweep:
            power = improve(batch, prices, power)
        else:
            power = climb(batch, prices, power, steps=_NEWTON_STEPS)
        value = batch.value(power, prices).view(-1, workers)
        return power.view(-1, workers, workers), value.amax(-1) - 1

    def _phases_from_afar(self, rows: Tensor, kappa: float) -> tuple[Tensor, Tensor]:
        """The same from starting points that do not depend on what is known."""
        batch = self.batch.take(rows)
        prices = phase_prices(batch, self.master.multipliers[rows], kappa)
        found = [
            improve(batch, prices, start, rounds=2) for start in starting_points(batch, prices)
        ]
        value = torch.stack([batch.value(power, prices) for power in found])
        return torch.stack(found, 1), value.amax(0) - 1

    def _add(self, power: Tensor, kappa: float) -> None:
        """Columns of powers (N, M, L) W; who does not take part is silent."""
        power = torch.where(self.takes_part[:, None], power, 0.0)
        self.power = torch.cat((self.power, power), 1)
        self.master.add(phase_rates(self.batch, power), self._cost(power, kappa))

    def _reprice(self, kappa: float, rewards: Tensor | None = None) -> None:
        """Costs of all columns; to leave a worker out costs its reward, if there is one."""
        workers = self.demand.shape[-1]
        cost = self._cost(self.power, kappa)
        cost[:, :workers] = 0.0
        cost[:, workers : 2 * workers] = _NEVER if rewards is None else rewards.to(cost)
        self.master.cost = cost

    def _cost(self, power: Tensor, kappa: float) -> Tensor:
        drawn = torch.where(power > 0, power + self.batch.static_power_w, 0.0)
        return 1 + kappa * drawn.sum(-1)

    def _solution(self, kappa: float, excess: Tensor) -> ScheduleSolution:
        master = self.master
        schedule = mixed_schedule(self.batch, self.phases, master.durations, self.demand)
        cost = (schedule.durations_s * self._cost(schedule.power, kappa)).sum(-1)
        return ScheduleSolution(schedule, cost, master.multipliers, self.demand, kappa, excess)
