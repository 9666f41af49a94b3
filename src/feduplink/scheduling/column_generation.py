"""Schedules of least time + κ · energy by column generation: search, front over κ, certified
bound.

A second at powers p delivers R(p) and costs 1 + κ Σ_{i on} (p_i + P_c,i). Over all powers at once
the best schedule is a linear program with one row per worker, so at most L phases do. Its dual
prices what a worker delivers by λ_i; the powers that would lower the cost most are those of the
largest

    Σ_i λ_i R_i(p) − κ Σ_{i on} (p_i + P_c,i),

a Lagrangian of :mod:`feduplink.lagrangian`. Where that is at most 1, nothing can be improved.

For λ ≥ 0 with Σ_i λ_i R_i(p) ≤ 1 + κ Σ_{i on} (p_i + P_c) at all powers p, every schedule costs at
least Σ_i λ_i w_i: its phases deliver w. If the largest Lagrangian Σ λ R − κ Σ (p + P_c) is at most
U ≥ 1, then λ / U is such a point, because dividing the rates and not the rest lowers it further. So
any upper bound U on the inner problem, as that of branch and bound, gives Σ λ w / U.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import check_csi
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch, Prices, climb, improve, starting_points
from feduplink.link import Schedule
from feduplink.link.uploads import power_alone
from feduplink.optimum import Budget, certify
from feduplink.progress import track
from feduplink.scenario import Scenario
from feduplink.scheduling.linear_program import MasterProgram
from feduplink.scheduling.phases import ascend, mixed_phases, phase_cost, phase_rates
from feduplink.tensor_record import TensorRecord

#: Reward of who has to send in every round, and hence what leaving it out costs: any number of s.
ALWAYS_S = 1e30
#: Rounds at once, and numbers in a tensor of all workers, phases and switched workers at once.
_MOST_ROUNDS = 256
_MOST_NUMBERS = 1 << 22


def check_rounds(csi: Tensor, seconds_per_joule: Sequence[float]) -> None:
    """Refuse channels that are not (N, L, L) and prices that are none."""
    check_csi(csi)
    if csi.ndim != 3 or len(csi) == 0:
        raise InputError(f"csi: shape {tuple(csi.shape)}; accepted: (N, L, L) with N of 1 or more.")
    for kappa in seconds_per_joule:
        if not 0 <= kappa < math.inf:
            raise InputError(f"kappa: {kappa} s/J is not accepted; accepted: 0 or more, finite.")


def demand_of(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, senders: Tensor | None = None
) -> Tensor:
    """w = Z ln 2 / B of every worker, (N, L) nats/Hz; 0 for who is not among the ``senders``."""
    # A model's bits are mostly those of the round before.
    key = tuple(bits.tolist()) if isinstance(bits, Tensor) and bits.ndim else float(bits)
    demand = _demand(key, scenario.bandwidth_hz).to(csi.device).expand(csi.shape[:-1])
    return demand.clone() if senders is None else demand * senders


@functools.lru_cache(maxsize=64)
def _demand(bits: float | tuple[float, ...], bandwidth_hz: float) -> Tensor:
    return link.rate_for_time(torch.tensor(bits, dtype=torch.float64), 1.0, bandwidth_hz)


def round_batches(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, senders: Tensor | None = None
) -> Iterator[tuple[ChannelBatch, Tensor]]:
    """The channels (N, L, L) in float64, batch after batch, with what everyone has to deliver."""
    demand = demand_of(scenario, csi, bits, senders)
    count = max(1, min(_MOST_ROUNDS, _MOST_NUMBERS // csi.shape[-1] ** 3))
    for start in range(0, len(csi), count):
        rows = slice(start, start + count)
        yield ChannelBatch.from_scenario(scenario, csi[rows]), demand[rows]


#: The largest Lagrangian that may be left above 1, hence about the relative error of a cost.
TOLERANCE = 1e-3
#: Searches from afar at most, and iterations between them; a few and a few dozen are usual.
_RESTARTS = 30
_ITERATIONS = 100
_NEWTON_STEPS = 4


@dataclass(frozen=True, repr=False)
class ScheduleSolution(TensorRecord):
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
        self.master = MasterProgram(rates, phase_cost(batch, self.power, 0.0), demand, basis)
        self._reprice(0.0)

    def add_phases(self, power: Tensor, seconds_per_joule: float) -> None:
        """Add powers (N, M, L) W as columns; who does not take part is silent."""
        power = torch.where(self.takes_part[:, None], power, 0.0)
        self.power = torch.cat((self.power, power), 1)
        cost = phase_cost(self.batch, power, seconds_per_joule)
        self.master.add(phase_rates(self.batch, power), cost)

    @property
    def phases(self) -> Tensor:
        """Powers of the phases in the basis, (N, L, L) W."""
        return self.master.of_basis(self.power)

    def solve(self, seconds_per_joule: float, *, tolerance: float = TOLERANCE) -> ScheduleSolution:
        """The best schedules, until no Lagrangian that is found exceeds 1 + ``tolerance``."""
        self._reprice(seconds_per_joule)
        excess = self._generate(seconds_per_joule, tolerance)
        return self._solution(seconds_per_joule, excess)

    def shares(self, seconds_per_joule: float, rewards: Tensor) -> tuple[Tensor, Tensor]:
        """What share of its model each worker should send, if a whole one is rewarded.

        The least time + κ · energy + Σ_i λ_i (1 − x_i) over shares x in [0, 1], and the shares:
        where they are 0 or 1, as most are, no choice of senders is better.

        Args:
            seconds_per_joule: κ.
            rewards: λ, (L,) or (N, L) s.

        Returns:
            The least cost, (N,) s, and the shares, (N, L).
        """
        self._reprice(seconds_per_joule, rewards)
        self._generate(seconds_per_joule, TOLERANCE)
        workers = self.demand.shape[-1]
        left_out = self.master.column_durations[:, workers : 2 * workers]
        shares = 1 - left_out.clamp(0.0, 1.0)
        return self.master.value, torch.where(self.takes_part, shares, 0.0)

    def _generate(self, kappa: float, tolerance: float) -> Tensor:
        """Add columns until none is found that would lower the cost; the excess left, (N,)."""
        batch, master = self.batch, self.master
        alone = power_alone(batch.direct, batch.pmax_w, batch.static_power_w, kappa)
        self.add_phases(torch.diag_embed(alone), kappa)
        master.solve()
        excess = torch.full_like(batch.direct[:, 0], torch.inf)
        rows = torch.arange(len(excess), device=excess.device)
        for _ in range(_RESTARTS):
            # Wider searches cost more, and least if they are made for many rounds at once: for all
            # in which nothing more is found nearby.
            for search in (self._step_up, self._climb_on):
                nearby = rows
                for _ in range(_ITERATIONS):
                    nearby = nearby[self._extend(nearby, search, kappa) > tolerance]
                    if len(nearby) == 0:
                        break
            excess[rows] = self._extend(rows, self._from_afar, kappa)
            rows = rows[excess[rows] > tolerance]
            if len(rows) == 0:
                break
        return excess

    def _extend(
        self, rows: Tensor, search: Callable[[Tensor, float], Tensor], kappa: float
    ) -> Tensor:
        """Add what is found for some rounds, (M,), and solve; the largest excess over 1, (M,)."""
        found = search(rows, kappa)
        above = self._excess(rows, found, kappa)
        columns = found.new_zeros(len(self.demand), *found.shape[1:])
        columns[rows] = found
        self.add_phases(columns, kappa)
        self.master.solve()
        return above

    def _step_up(self, rows: Tensor, kappa: float) -> Tensor:
        """Phases (M, L, L) W a step above those of the schedules, senders switched."""
        prices = self.master.multipliers[rows].clamp_min(0.0)
        power: Tensor = ascend(self.batch.take(rows), self.phases[rows], prices, kappa)
        return power

    def _climb_on(self, rows: Tensor, kappa: float) -> Tensor:
        """The local maxima above the phases of the schedules, (M, L, L) W, by Newton's method."""
        workers = self.demand.shape[-1]
        flat = rows.repeat_interleave(workers)
        batch = self.batch.take(flat)
        prices = phase_prices(batch, self.master.multipliers[flat], kappa)
        start = self.phases[rows].reshape(-1, workers)
        power = climb(batch, prices, start, steps=_NEWTON_STEPS)
        return power.view(-1, workers, workers)

    def _from_afar(self, rows: Tensor, kappa: float) -> Tensor:
        """Phases (M, K, L) W above starting points that do not depend on what is known."""
        batch = self.batch.take(rows)
        prices = phase_prices(batch, self.master.multipliers[rows], kappa)
        starts = starting_points(batch, prices)
        return torch.stack([improve(batch, prices, start, rounds=2) for start in starts], 1)

    def _excess(self, rows: Tensor, power: Tensor, kappa: float) -> Tensor:
        """By how much the largest Lagrangian of phases (M, K, L) W exceeds 1, (M,)."""
        batch, prices = self.batch.take(rows), self.master.multipliers[rows].clamp_min(0.0)
        value = (phase_rates(batch, power) @ prices[..., None])[..., 0]
        excess: Tensor = value - phase_cost(batch, power, kappa)
        return excess.amax(-1)

    def _reprice(self, kappa: float, rewards: Tensor | None = None) -> None:
        """Costs of all columns; to leave a worker out costs its reward, if there is one."""
        workers = self.demand.shape[-1]
        cost = phase_cost(self.batch, self.power, kappa)
        cost[:, :workers] = 0.0
        cost[:, workers : 2 * workers] = ALWAYS_S if rewards is None else rewards.to(cost)
        self.master.cost = cost

    def _solution(self, kappa: float, excess: Tensor) -> ScheduleSolution:
        master = self.master
        mixed = mixed_phases(self.batch, self.phases, master.durations, self.demand)
        schedule = Schedule(*mixed)
        cost = (schedule.durations_s * phase_cost(self.batch, schedule.power, kappa)).sum(-1)
        return ScheduleSolution(schedule, cost, master.multipliers, self.demand, kappa, excess)


#: Branch and bound also finds phases that the search had missed. With them the program is solved
#: again, so often at most.
_ROUNDS = 4
#: Of the gap that is asked for, this share goes to the search; the rest is for its bound.
_SHARE = 0.2


@dataclass(frozen=True)
class BoundedSchedules(TensorRecord):
    """Schedules with a proof of how good they are.

    Attributes:
        solution: the schedules.
        lower: what no schedule of the channel costs less than, (N,) s.
        seconds: that the proof took.
    """

    solution: ScheduleSolution
    lower: Tensor
    seconds: float

    @property
    def gap(self) -> Tensor:
        """1 − lower / cost, (N,): by which share anybody could be cheaper at most."""
        return 1 - self.lower / self.solution.cost


def bound_schedules(
    search: ColumnGeneration,
    seconds_per_joule: float,
    *,
    gap: float,
    budget: Budget,
) -> BoundedSchedules:
    """Find the best schedules, and bound their cost until within ``gap`` or out of budget.

    The bound is valid wherever the search stops: a shorter search has a looser one.
    """
    started = time.monotonic()
    tolerance = min(TOLERANCE, _SHARE * gap)
    solution = search.solve(seconds_per_joule, tolerance=tolerance)
    lower, boxes = torch.zeros_like(solution.cost), 0
    for _ in range(_ROUNDS):
        left = budget.remaining(boxes, time.monotonic() - started)
        wanted = 1 - 2 * _SHARE
        certificate = certify(
            search.batch,
            solution.prices(search.batch),
            max_boxes=left.boxes,
            budget_s=left.seconds,
            gap=wanted * gap,
            channel_gap=wanted * gap,
        )
        # Σ λ w / U with the upper bound U on the largest Lagrangian.
        priced = (solution.multipliers.clamp_min(0.0) * solution.demand).sum(-1)
        lower = torch.maximum(lower, priced / certificate.upper.clamp_min(1.0))
        boxes += certificate.boxes
        proved = bool((lower >= (1 - gap) * solution.cost).all())
        if proved or budget.is_spent(boxes, time.monotonic() - started):
            break
        search.add_phases(certificate.power[:, None], seconds_per_joule)
        solution = search.solve(seconds_per_joule, tolerance=tolerance)
    return BoundedSchedules(solution, lower, time.monotonic() - started)


def find_schedules(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    *,
    seconds_per_joule: float = 0.0,
    senders: Tensor | None = None,
    tolerance: float = TOLERANCE,
) -> ScheduleSolution:
    """Schedules of least time + κ · energy of channels (N, L, L).

    Args:
        scenario: the radio.
        csi: H, (N, L, L).
        bits: Z of a model, a scalar or (L,).
        seconds_per_joule: κ ≥ 0; 0 is the fastest round.
        senders: who takes part, (N, L) bool; None is everyone.
        tolerance: how far above 1 a Lagrangian may be left, about the relative error of the cost.
    """
    return find_front(
        scenario, csi, bits, [seconds_per_joule], senders=senders, tolerance=tolerance
    )[0]


def find_front(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    seconds_per_joule: Sequence[float],
    *,
    senders: Tensor | None = None,
    tolerance: float = TOLERANCE,
) -> list[ScheduleSolution]:
    """The same for several κ, which share what is found: the front between time and energy."""
    check_rounds(csi, seconds_per_joule)
    found: list[list[ScheduleSolution]] = [[] for _ in seconds_per_joule]
    with track("schedules", len(csi), "channels") as progress:
        for batch, demand in round_batches(scenario, csi, bits, senders):
            search = ColumnGeneration(batch, demand)
            for kappa, parts in zip(seconds_per_joule, found, strict=True):
                parts.append(search.solve(kappa, tolerance=tolerance))
            progress.advance(sum(len(part.cost) for part in found[0]))
    return [ScheduleSolution.concat(parts) for parts in found]


def bound_front(
    scenario: Scenario,
    csi: Tensor,
    bits: float | Tensor,
    seconds_per_joule: Sequence[float],
    *,
    gap: float,
    max_boxes: int | None = None,
    budget_s: float | None = None,
) -> list[BoundedSchedules]:
    """The front with a proof for every channel and κ.

    Args:
        scenario: the radio.
        csi: H, (N, L, L).
        bits: Z of a model, a scalar or (L,).
        seconds_per_joule: the values of κ ≥ 0.
        gap: relative gap of every channel at which its proof stops.
        max_boxes: number of boxes of branch and bound after which the proof for a κ stops; None: a
            default, or no limit if there is one in seconds.
        budget_s: time after which the proof for a κ stops, s; None: no limit.
    """
    budget = Budget(max_boxes, budget_s)
    check_rounds(csi, seconds_per_joule)
    found: list[list[BoundedSchedules]] = [[] for _ in seconds_per_joule]
    with track("bounds of schedules", len(csi), "channels") as progress:
        for batch, demand in round_batches(scenario, csi, bits):
            search = ColumnGeneration(batch, demand)
            share = len(demand) / len(csi)
            for kappa, parts in zip(seconds_per_joule, found, strict=True):
                parts.append(bound_schedules(search, kappa, gap=gap, budget=budget.share(share)))
            progress.advance(sum(len(part.lower) for part in found[0]))
    return [
        replace(BoundedSchedules.concat(parts), seconds=sum(part.seconds for part in parts))
        for parts in found
    ]
