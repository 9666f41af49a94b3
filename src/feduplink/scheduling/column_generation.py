"""Schedules of minimum time + κ · energy by column generation: search, front, certified bound.

A phase of one second at powers p delivers R(p) and costs 1 + κ Σ_{i: p_i > 0} (p_i + P_c,i). Over
all power vectors the best schedule is a linear program with one row per worker, so at most L phases
are needed. Its dual variable λ_i is the price of worker i's rate. The column with the lowest
reduced cost is the power vector that maximises

    Σ_i λ_i R_i(p) − κ Σ_{i: p_i > 0} (p_i + P_c,i),

a Lagrangian of :mod:`feduplink.lagrangian`. The schedule is optimal if this maximum is at most 1.

Lower bound: if λ ≥ 0 satisfies Σ_i λ_i R_i(p) ≤ 1 + κ Σ_{i: p_i > 0} (p_i + P_c,i) at all powers p,
every schedule that delivers w costs at least Σ_i λ_i w_i. If the largest Lagrangian is at most
U ≥ 1, then λ / U is such a point, because dividing only the rates by U lowers the left side
further. Any upper bound U on the inner problem, such as that of branch and bound, thus gives
Σ λ w / U.
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

#: Reward of workers that must send in every round, in seconds; larger than any cost.
MANDATORY_REWARD_S = 1e30
#: Maximum rounds per batch, and numbers per tensor (rounds × workers × phases × switched workers).
_MAX_ROUNDS_PER_BATCH = 256
_MAX_NUMBERS_PER_TENSOR = 1 << 22


def check_rounds(csi: Tensor, seconds_per_joule: Sequence[float]) -> None:
    """Check the channels and prices of energy of a set of rounds.

    Args:
        csi: H, (N, L, L).
        seconds_per_joule: values of κ, s/J.

    Raises:
        InputError: if ``csi`` is not (N, L, L) with positive finite gains, or a κ is negative or
            not finite.
    """
    check_csi(csi)
    if csi.ndim != 3 or len(csi) == 0:
        raise InputError(
            f"csi: shape {tuple(csi.shape)} was given; accepted: (N, L, L) with N of 1 or more."
        )
    for kappa in seconds_per_joule:
        if not 0 <= kappa < math.inf:
            raise InputError(
                f"kappa: {kappa} s/J was given; accepted: finite numbers of 0 or more."
            )


def demand_of(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, senders: Tensor | None = None
) -> Tensor:
    """Demand w = Z ln 2 / B of every worker.

    Args:
        scenario: the radio, with bandwidth B.
        csi: H, (N, L, L).
        bits: Z of an upload, a scalar or (L,).
        senders: workers that take part, (N, L) bool; None: all.

    Returns:
        w, (N, L), nats/Hz; 0 for workers that do not take part.
    """
    # The key of the cache: the number of bits rarely changes between rounds.
    key = tuple(bits.tolist()) if isinstance(bits, Tensor) and bits.ndim else float(bits)
    demand = _demand(key, scenario.bandwidth_hz).to(csi.device).expand(csi.shape[:-1])
    return demand.clone() if senders is None else demand * senders


@functools.lru_cache(maxsize=64)
def _demand(bits: float | tuple[float, ...], bandwidth_hz: float) -> Tensor:
    """w on the CPU, () or (L,), nats/Hz; cached."""
    return link.rate_for_time(torch.tensor(bits, dtype=torch.float64), 1.0, bandwidth_hz)


def round_batches(
    scenario: Scenario, csi: Tensor, bits: float | Tensor, senders: Tensor | None = None
) -> Iterator[tuple[ChannelBatch, Tensor]]:
    """Split channels (N, L, L) into batches in float64, each with its demand (M, L) in nats/Hz.

    Arguments as in :func:`demand_of`.
    """
    demand = demand_of(scenario, csi, bits, senders)
    count = max(1, min(_MAX_ROUNDS_PER_BATCH, _MAX_NUMBERS_PER_TENSOR // csi.shape[-1] ** 3))
    for start in range(0, len(csi), count):
        rows = slice(start, start + count)
        yield ChannelBatch.from_scenario(scenario, csi[rows]), demand[rows]


#: Accepted excess of the largest Lagrangian over 1, about the relative error of the cost.
TOLERANCE = 1e-3
#: Maximum number of searches from independent starting points, and of iterations between them.
_MAX_RESTARTS = 30
_MAX_ITERATIONS = 100
_NEWTON_STEPS = 4


@dataclass(frozen=True, repr=False)
class ScheduleSolution(TensorRecord):
    """The best schedules found for N channels, with the dual solution of their linear programs.

    Attributes:
        schedule: L phases per round in descending number of senders; unused phases are silent.
        cost: time + κ · energy, (N,), s.
        multipliers: λ, marginal cost of worker i's demand, (N, L), s per nat/Hz.
        demand: w, (N, L), nats/Hz.
        seconds_per_joule: κ, s/J.
        excess: largest Lagrangian found minus 1, (N,).
    """

    schedule: Schedule
    cost: Tensor
    multipliers: Tensor
    demand: Tensor
    seconds_per_joule: float
    excess: Tensor

    def __repr__(self) -> str:
        """Number of channels, κ and mean cost."""
        return (
            f"ScheduleSolution({len(self.cost)} channels, {self.seconds_per_joule:g} s/J, "
            f"mean cost {float(self.cost.mean()):.4g} s)"
        )

    def prices(self, batch: ChannelBatch) -> Prices:
        """Prices of the Lagrangian that is at most 1 for an optimal schedule."""
        return phase_prices(batch, self.multipliers, self.seconds_per_joule)


def phase_prices(batch: ChannelBatch, multipliers: Tensor, seconds_per_joule: float) -> Prices:
    """Prices of the inner problem: λ on the rates, κ on power, κ P_c on transmitting.

    Args:
        batch: N channels.
        multipliers: λ, (N, L), s per nat/Hz; negative values count as 0.
        seconds_per_joule: κ, s/J.
    """
    free = torch.zeros_like(batch.pmax_w)
    return Prices(
        success=free,
        rate=multipliers.clamp_min(0.0),
        efficiency=free,
        activation_cost=seconds_per_joule * batch.static_power_w,
        power_cost=seconds_per_joule + free if seconds_per_joule > 0 else None,
    )


class ColumnGeneration:
    """Column generation for N channels; columns found for one κ are kept for the next.

    Args:
        batch: the channels.
        demand: w = Z ln 2 / B, (N, L), nats/Hz; 0 for workers that do not take part.
    """

    def __init__(self, batch: ChannelBatch, demand: Tensor) -> None:
        self.batch, self.demand = batch, demand
        workers = demand.shape[-1]
        self.takes_part = demand > 0
        silent = torch.zeros(len(demand), 2 * workers, workers).to(demand)
        alone = torch.where(self.takes_part[:, None], torch.diag(batch.pmax_w), 0.0)
        #: Powers of all columns, (N, K, L) W. The first L columns are surplus variables at no cost;
        #: the next L leave one worker out at a cost.
        self.power = torch.cat((silent, alone), 1)
        rates = phase_rates(batch, self.power)
        rates[:, :workers] = -torch.eye(workers).to(rates)
        rates[:, workers : 2 * workers] = torch.diag_embed(demand)
        first = torch.arange(workers, device=demand.device)
        basis = torch.where(self.takes_part, first + 2 * workers, first)
        self.master = MasterProgram(rates, phase_cost(batch, self.power, 0.0), demand, basis)
        self._reprice(0.0)

    def add_phases(self, power: Tensor, seconds_per_joule: float) -> None:
        """Add powers (N, M, L) W as columns; workers that do not take part are set to 0."""
        power = torch.where(self.takes_part[:, None], power, 0.0)
        self.power = torch.cat((self.power, power), 1)
        cost = phase_cost(self.batch, power, seconds_per_joule)
        self.master.add(phase_rates(self.batch, power), cost)

    @property
    def phases(self) -> Tensor:
        """Powers of the phases in the basis, (N, L, L) W."""
        return self.master.of_basis(self.power)

    def solve(self, seconds_per_joule: float, *, tolerance: float = TOLERANCE) -> ScheduleSolution:
        """Generate columns until no Lagrangian found exceeds 1 + ``tolerance``.

        Args:
            seconds_per_joule: κ, s/J.
            tolerance: accepted excess of the largest Lagrangian over 1.

        Returns:
            The best schedules found.
        """
        self._reprice(seconds_per_joule)
        excess = self._generate(seconds_per_joule, tolerance)
        return self._solution(seconds_per_joule, excess)

    def shares(self, seconds_per_joule: float, rewards: Tensor) -> tuple[Tensor, Tensor]:
        """Solve the relaxed participation problem.

        Minimises time + κ · energy + Σ_i λ_i (1 − x_i) over schedules and shares x in [0, 1] of
        every worker's upload. If all shares are 0 or 1, the choice of senders is optimal.

        Args:
            seconds_per_joule: κ, s/J.
            rewards: λ, reward of a complete upload, (L,) or (N, L), s.

        Returns:
            Minimum cost (N,) in s, and the shares (N, L).
        """
        self._reprice(seconds_per_joule, rewards)
        self._generate(seconds_per_joule, TOLERANCE)
        workers = self.demand.shape[-1]
        left_out = self.master.column_durations[:, workers : 2 * workers]
        shares = 1 - left_out.clamp(0.0, 1.0)
        return self.master.value, torch.where(self.takes_part, shares, 0.0)

    def _generate(self, kappa: float, tolerance: float) -> Tensor:
        """Add columns until none found lowers the cost; return the remaining excess, (N,)."""
        batch, master = self.batch, self.master
        alone = power_alone(batch.direct, batch.pmax_w, batch.static_power_w, kappa)
        self.add_phases(torch.diag_embed(alone), kappa)
        master.solve()
        excess = torch.full_like(batch.direct[:, 0], torch.inf)
        rows = torch.arange(len(excess), device=excess.device)
        for _ in range(_MAX_RESTARTS):
            # Wider searches are expensive and fastest in large batches. They therefore wait until
            # the local searches have converged in all rounds.
            for search in (self._ascend_basis, self._newton_from_basis):
                unconverged = rows
                for _ in range(_MAX_ITERATIONS):
                    unconverged = unconverged[
                        self._add_columns_from(unconverged, search, kappa) > tolerance
                    ]
                    if len(unconverged) == 0:
                        break
            excess[rows] = self._add_columns_from(rows, self._multi_start, kappa)
            rows = rows[excess[rows] > tolerance]
            if len(rows) == 0:
                break
        return excess

    def _add_columns_from(
        self, rows: Tensor, search: Callable[[Tensor, float], Tensor], kappa: float
    ) -> Tensor:
        """Add the columns that ``search`` finds for rounds (M,); return their excess, (M,)."""
        found = search(rows, kappa)
        above = self._excess(rows, found, kappa)
        columns = found.new_zeros(len(self.demand), *found.shape[1:])
        columns[rows] = found
        self.add_phases(columns, kappa)
        self.master.solve()
        return above

    def _ascend_basis(self, rows: Tensor, kappa: float) -> Tensor:
        """One ascent step from the phases of the basis, (M, L, L) W, with on/off switches."""
        prices = self.master.multipliers[rows].clamp_min(0.0)
        power: Tensor = ascend(self.batch.take(rows), self.phases[rows], prices, kappa)
        return power

    def _newton_from_basis(self, rows: Tensor, kappa: float) -> Tensor:
        """Newton ascent from the phases of the basis, (M, L, L) W."""
        workers = self.demand.shape[-1]
        flat = rows.repeat_interleave(workers)
        batch = self.batch.take(flat)
        prices = phase_prices(batch, self.master.multipliers[flat], kappa)
        start = self.phases[rows].reshape(-1, workers)
        power = climb(batch, prices, start, steps=_NEWTON_STEPS)
        return power.view(-1, workers, workers)

    def _multi_start(self, rows: Tensor, kappa: float) -> Tensor:
        """Local maxima from starting points that do not depend on known columns, (M, K, L) W."""
        batch = self.batch.take(rows)
        prices = phase_prices(batch, self.master.multipliers[rows], kappa)
        starts = starting_points(batch, prices)
        return torch.stack([improve(batch, prices, start, rounds=2) for start in starts], 1)

    def _excess(self, rows: Tensor, power: Tensor, kappa: float) -> Tensor:
        """Largest Lagrangian of phases (M, K, L) W minus 1, (M,)."""
        batch, prices = self.batch.take(rows), self.master.multipliers[rows].clamp_min(0.0)
        value = (phase_rates(batch, power) @ prices[..., None])[..., 0]
        excess: Tensor = value - phase_cost(batch, power, kappa)
        return excess.amax(-1)

    def _reprice(self, kappa: float, rewards: Tensor | None = None) -> None:
        """Set the costs of all columns; leaving a worker out costs its reward, if it has one."""
        workers = self.demand.shape[-1]
        cost = phase_cost(self.batch, self.power, kappa)
        cost[:, :workers] = 0.0
        cost[:, workers : 2 * workers] = MANDATORY_REWARD_S if rewards is None else rewards.to(cost)
        self.master.cost = cost

    def _solution(self, kappa: float, excess: Tensor) -> ScheduleSolution:
        """The schedules of the present basis, stretched to deliver the demand."""
        master = self.master
        mixed = mixed_phases(self.batch, self.phases, master.durations, self.demand)
        schedule = Schedule(*mixed)
        cost = (schedule.durations_s * phase_cost(self.batch, schedule.power, kappa)).sum(-1)
        return ScheduleSolution(schedule, cost, master.multipliers, self.demand, kappa, excess)


#: Maximum number of bounds per channel. Branch and bound may find better phases than the search;
#: the program is then solved again with them.
_MAX_BOUND_ROUNDS = 4
#: Share of the requested gap that the search may use; the bound uses the rest.
_SEARCH_SHARE_OF_GAP = 0.2


@dataclass(frozen=True)
class BoundedSchedules(TensorRecord):
    """Schedules with a certified lower bound on the cost.

    Attributes:
        solution: the schedules.
        lower: lower bound on the cost of any schedule, (N,), s.
        seconds: run time of the search and the bound, s.
    """

    solution: ScheduleSolution
    lower: Tensor
    seconds: float

    @property
    def gap(self) -> Tensor:
        """Relative gap 1 − lower / cost, (N,)."""
        return 1 - self.lower / self.solution.cost


def bound_schedules(
    search: ColumnGeneration,
    seconds_per_joule: float,
    *,
    gap: float,
    budget: Budget,
) -> BoundedSchedules:
    """Find schedules and bound their cost until the relative gap is at most ``gap``.

    The bound is valid whenever the search stops; a shorter search gives a looser bound.

    Args:
        search: column generation of the channels.
        seconds_per_joule: κ, s/J.
        gap: relative gap per channel at which the search stops.
        budget: limits on boxes and seconds of branch and bound.
    """
    started = time.monotonic()
    tolerance = min(TOLERANCE, _SEARCH_SHARE_OF_GAP * gap)
    solution = search.solve(seconds_per_joule, tolerance=tolerance)
    lower, boxes = torch.zeros_like(solution.cost), 0
    for _ in range(_MAX_BOUND_ROUNDS):
        left = budget.remaining(boxes, time.monotonic() - started)
        bound_share_of_gap = 1 - 2 * _SEARCH_SHARE_OF_GAP
        certificate = certify(
            search.batch,
            solution.prices(search.batch),
            max_boxes=left.boxes,
            budget_s=left.seconds,
            gap=bound_share_of_gap * gap,
            channel_gap=bound_share_of_gap * gap,
        )
        # Σ λ w / U with the upper bound U on the largest Lagrangian.
        dual_value = (solution.multipliers.clamp_min(0.0) * solution.demand).sum(-1)
        lower = torch.maximum(lower, dual_value / certificate.upper.clamp_min(1.0))
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
    """Find schedules that minimise time + κ · energy.

    Args:
        scenario: the radio.
        csi: H, (N, L, L), linear, relative to the noise power.
        bits: Z of an upload, a scalar or (L,).
        seconds_per_joule: κ ≥ 0, s/J; 0 minimises the time.
        senders: workers that take part, (N, L) bool; None: all.
        tolerance: accepted excess of the largest Lagrangian over 1, about the relative error of the
            cost.

    Returns:
        Schedules of at most L phases per channel, with their cost and multipliers.

    Raises:
        InputError: if ``csi`` is not (N, L, L), or κ is negative or not finite.
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
    """Find the Pareto front between time and energy: schedules for several κ.

    Columns are shared between the values of κ.

    Args:
        scenario: the radio.
        csi: H, (N, L, L), linear, relative to the noise power.
        bits: Z of an upload, a scalar or (L,).
        seconds_per_joule: values of κ ≥ 0, s/J.
        senders: workers that take part, (N, L) bool; None: all.
        tolerance: as in :func:`find_schedules`.

    Returns:
        One :class:`ScheduleSolution` of N channels per κ.

    Raises:
        InputError: if ``csi`` is not (N, L, L), or a κ is negative or not finite.
    """
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
    """Find the Pareto front between time and energy with a certified lower bound per channel and κ.

    Args:
        scenario: the radio.
        csi: H, (N, L, L), linear, relative to the noise power.
        bits: Z of an upload, a scalar or (L,).
        seconds_per_joule: values of κ ≥ 0, s/J.
        gap: relative gap per channel at which the search stops.
        max_boxes: maximum number of boxes of branch and bound per κ; None: a default, or no limit
            if ``budget_s`` is given.
        budget_s: time limit per κ, s; None: no limit. Results then depend on the machine.

    Returns:
        One :class:`BoundedSchedules` of N channels per κ.

    Raises:
        InputError: if ``csi`` is not (N, L, L), or a κ is negative or not finite.
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
