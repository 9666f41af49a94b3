"""How a policy is judged on a set of channels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels.csi import check_csi
from feduplink.errors import InputError
from feduplink.feasibility import VERDICTS, Shortfalls
from feduplink.metrics import finite_or_none
from feduplink.problem import Constraint, Problem, success_rate
from feduplink.scenario import Scenario
from feduplink.text_table import TextTable


@dataclass(frozen=True)
class Reached:
    """What a constrained measure came to.

    Attributes:
        constraint: with its limit.
        expected: E[measure_i] of every worker, (L,); NaN for one that never transmits.

    """

    constraint: Constraint
    expected: Tensor

    @property
    def worst(self) -> float:
        """That of the worker that is nearest to its limit or farthest beyond it; NaN if none is.

        The smallest of all workers, or the largest for an upper limit.
        """
        known = self.expected[~self.expected.isnan()]
        if len(known) == 0:
            return math.nan
        return float(known.max() if self.constraint.at_most else known.min())

    @property
    def key(self) -> str:
        """Of ``worst`` in ``metrics.json``: ``rate_min``, or ``power_max`` for an upper limit."""
        return f"{self.constraint.name}_{'max' if self.constraint.at_most else 'min'}"


@dataclass(frozen=True, repr=False)
class Judgement:
    """How a policy does on a set of channels; all figures that must be shown together.

    Attributes:
        objective: g(E[f]); higher is better.
        weighted_per: Σ ω PER / Σ ω over the worker-rounds that transmit (NaN if none does). It
            says little alone: a policy that silences every bad link scores near zero.
        participation: share of worker-rounds with p > 0.
        reached: what every constrained measure came to, by its name.
        feasible: whether the constraints are met to within 1 % of their limits on the
            distribution that the channels were drawn from: True, False, or None if so many
            channels cannot tell (:mod:`feduplink.feasibility`).
        shortfall: largest relative shortfall of a constraint on these channels; negative if
            there is something to spare everywhere, 0 if nothing is constrained.
        shortfall_error: half the width of its interval, all of which hold together with 95 %.

    """

    objective: float
    weighted_per: float
    participation: float
    reached: dict[str, Reached]
    feasible: bool | None
    shortfall: float
    shortfall_error: float

    @property
    def violation(self) -> float:
        """By how much a constraint is missed on these very channels, 0 if all are met."""
        return max(0.0, self.shortfall)

    def __repr__(self) -> str:
        """The figures that must be shown together, on one line."""
        return f"Judgement({', '.join(f'{k} {v}' for k, v in self._entries().items())})"

    def _repr_html_(self) -> str:
        return TextTable.of_entries("Judgement", self._entries()).html()

    def _entries(self) -> dict[str, str]:
        within = f"{100 * self.shortfall:+.1f} ± {100 * self.shortfall_error:.1f} %"
        return {
            "objective": f"{self.objective:.4f}",
            "constraints": f"{VERDICTS[self.feasible]} (shortfall {within})",
            "participation": f"{100 * self.participation:.1f} %",
            "weighted PER": f"{100 * self.weighted_per:.2f} %",
        }

    def rank(self, tolerance: float = 0.0) -> tuple[bool, float]:
        """Sort key: what misses no constraint by more than ``tolerance`` first, by objective.

        The others by how little they miss.
        """
        return feasible_first(self.violation, self.objective, tolerance)

    def as_metrics(self) -> dict[str, float | bool | None]:
        """The entry of ``metrics.json``; what does not exist or cannot be told is None."""
        values: dict[str, float | bool | None] = {
            "objective": self.objective,
            "weighted_per": self.weighted_per,
            "participation": self.participation,
            **{reached.key: reached.worst for reached in self.reached.values()},
            "feasible": self.feasible,
            "shortfall": self.shortfall,
            "shortfall_error": self.shortfall_error,
        }
        return {name: finite_or_none(value) for name, value in values.items()}


def feasible_first(
    violation: float, objective: float, tolerance: float = 0.0
) -> tuple[bool, float]:
    """Sort key: violations up to ``tolerance`` first, by objective, the others by how little.

    >>> sorted([(0.3, 5.0), (0.0, 1.0), (0.1, 2.0)], key=lambda pair: feasible_first(*pair))
    [(0.3, 5.0), (0.1, 2.0), (0.0, 1.0)]
    """
    met = violation <= tolerance
    return (met, objective if met else -violation)


def judge(
    power: Tensor, csi: Tensor, scenario: Scenario, problem: Problem | None = None
) -> Judgement:
    """Judge powers (N, L) in W on the true channels (N, L, L), in float64.

    By ``problem``, or by the one that the scenario describes.
    """
    check_csi(csi, scenario.workers)
    if csi.ndim != 3 or len(csi) == 0 or power.shape != csi.shape[:-1]:
        raise InputError(
            f"power: shape {tuple(power.shape)}; accepted with csi {tuple(csi.shape)}: (N, L) "
            "and (N, L, L) with N >= 1."
        )
    if not bool((power.isfinite() & (power >= 0)).all()):
        raise InputError("power: holds NaN, infinity or a negative power; accepted: 0 W and above.")
    problem = problem or Problem.from_scenario(scenario)
    power = power.detach().to("cpu", torch.float64)
    sinr = link.sinr(csi.detach().to("cpu", torch.float64), power)
    on_air = power > 0

    weights = scenario.worker_weights * on_air
    per = success_rate(problem.objective, scenario).error(sinr, power)
    shortfalls = Shortfalls.from_problem(problem, sinr, power)
    shortfall, shortfall_error = shortfalls.worst
    return Judgement(
        objective=problem.objective_value(sinr, power),
        weighted_per=float((weights * per).sum() / weights.sum()),
        participation=float(on_air.double().mean()),
        reached={
            constraint.name: Reached(
                constraint, constraint.mean(constraint.measure.value(sinr, power), power)
            )
            for constraint in problem.constraints
        },
        feasible=shortfalls.met,
        shortfall=shortfall,
        shortfall_error=shortfall_error,
    )
