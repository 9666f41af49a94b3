"""The optimum on a set of channels: the best powers found, and a certified upper bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from feduplink.channels.csi import check_csi
from feduplink.errors import InputError
from feduplink.judgement import Judgement, finite_or_none, judge
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices
from feduplink.optimum.bounds import (
    Unreachable,
    certify,
    check_provable,
    check_reachable,
    interference_free_bound,
)
from feduplink.optimum.branch_and_bound import Certificate
from feduplink.optimum.dual import SEARCH, DualSolution, solve_dual
from feduplink.optimum.primal_recovery import MAX_VIOLATION, repair_by_silence
from feduplink.problem import Problem
from feduplink.progress import Callback
from feduplink.scenario import Scenario
from feduplink.tables import TextTable
from feduplink.validation import usable_device

#: Largest relative gap of an optimum that counts as certified.
CERTIFIED_GAP = 0.02
#: Name of the optimum in tables of policies.
OPTIMUM = "optimum"


@dataclass(frozen=True, repr=False)
class Optimum:
    """The best feasible powers found on a set of channels, with a certified upper bound.

    ``power`` satisfies the constraints on these channels and has the value ``objective``. No policy
    that satisfies them exceeds ``upper_bound`` there.

    Attributes:
        scenario: the cell and its radio.
        problem: objective and constraints.
        csi: the channels, (N, L, L), linear, relative to the noise power.
        solution: the best powers and the multipliers.
        certificate: bounds on the largest Lagrangian of every channel.
        unreachable: workers whose thresholds are out of reach on all channels.
        gap_asked: target of the search, upper bound minus objective.

    >>> from feduplink import Scenario, draw_csi
    >>> from feduplink.optimum import find_optimum
    >>> csi = draw_csi(Scenario(workers=2), 10, torch.Generator().manual_seed(0))
    >>> optimum = find_optimum(Scenario(workers=2), csi)
    >>> optimum.certified, optimum.power.shape
    (True, torch.Size([10, 2]))
    """

    scenario: Scenario
    problem: Problem
    csi: Tensor
    solution: DualSolution
    certificate: Certificate
    unreachable: list[Unreachable]
    gap_asked: float = 1e-3

    @property
    def power(self) -> Tensor:
        """The best feasible powers found, (N, L), W."""
        return self.solution.power

    @property
    def objective(self) -> float:
        """g(E[f]) at these powers, in the unit of the objective."""
        return self.solution.judgement.objective

    @property
    def upper_bound(self) -> float:
        """Upper bound on g(E[f]): the certificate's, or the interference-free one if lower."""
        proved = float(self.certificate.upper.mean()) + self.solution.constant
        # If the bound is attained, rounding may put it below the objective.
        return max(min(proved, self.interference_free_bound), self.objective)

    @property
    def interference_free_bound(self) -> float:
        """:func:`interference_free_bound` on these channels."""
        direct = self.csi.diagonal(dim1=-2, dim2=-1)
        return interference_free_bound(self.problem, self.scenario.max_power, direct)

    @property
    def gap(self) -> float:
        """upper_bound − objective ≥ 0; infinite if a worker with a weight never transmits."""
        return self.upper_bound - self.objective

    @property
    def relative_gap(self) -> float:
        """The gap relative to the objective; infinite if the objective is 0.

        It compares weighted means over the workers: arithmetic means for the weighted sum,
        geometric means for proportional fairness (:mod:`feduplink.problem`).
        """
        return self.problem.utility.relative_gap(self.objective, self.upper_bound)

    @property
    def stopped(self) -> str:
        """Statement of the limit that ended the search before its target gap; empty if none did."""
        certificate = self.certificate
        if not certificate.limit or self.gap <= self.gap_asked:
            return ""
        after = {"boxes": f"{certificate.boxes:,} boxes", "seconds": f"{certificate.seconds:.0f} s"}
        return f"stopped after {after[certificate.limit]} (limit); gap asked {self.gap_asked:g}"

    @property
    def certified(self) -> bool:
        """Whether the relative gap is at most :data:`CERTIFIED_GAP`."""
        return self.relative_gap <= CERTIFIED_GAP

    def __repr__(self) -> str:
        """Objective and bound on one line."""
        return f"Optimum({', '.join(f'{k} {v}' for k, v in self._entries().items())})"

    def _repr_html_(self) -> str:
        return TextTable.of_entries("Optimum", self._entries()).html()

    def _entries(self) -> dict[str, str]:
        count, workers = self.power.shape
        certified = "certified" if self.certified else "not certified"
        return {
            "objective": f"{self.objective:.4f}",
            "proved bound": f"{self.upper_bound:.4f} ({certified}, {self.relative_gap:.2%} above)",
            "channels": f"{count} of {workers} workers",
            "found by": self.solution.found_by,
            **({"always silent": f"{len(self.unreachable)} workers"} if self.unreachable else {}),
        }

    def below(self, judgement: Judgement) -> float | None:
        """Distance of a policy judged on these channels to the optimum, at least 0.

        Args:
            judgement: judgement of the policy on the same channels.

        Returns:
            objective − that of the policy. None if the policy violates a constraint on these
            channels, if the distance is infinite, and for schedules, which may exceed an optimum
            with one power per worker and round.
        """
        if judgement.violation > MAX_VIOLATION or not judgement.is_simultaneous:
            return None
        return finite_or_none(max(self.objective - judgement.objective, 0.0))

    def improved_by(self, powers: Mapping[str, Tensor]) -> Optimum:
        """Replace the powers by the best of these and others.

        Infeasible powers are first repaired by silence. A feasible policy that is included does not
        exceed the optimum.

        Args:
            powers: powers on the same channels by name, (N, L) each, W.

        Returns:
            The optimum with the best powers.
        """
        batch = ChannelBatch.from_scenario(self.scenario, self.csi)
        solution = self.solution
        for name, power in powers.items():
            repaired = repair_by_silence(power, batch, self.problem)
            verdict = judge(self.scenario, self.csi, repaired, problem=self.problem)
            solution = solution.improved_by(name, repaired, verdict)
        return replace(self, solution=solution)

    def as_metrics(self) -> dict[str, Any]:
        """Entry ``optimum`` of ``metrics.json``.

        Returns:
            Values by name; None for infinite values.
        """
        verdict = self.solution.judgement.as_metrics()
        # The constraints hold exactly on these channels, without an estimation error.
        del verdict["shortfall_error"], verdict["verdict_channels"]
        return {
            **verdict,
            "upper_bound": finite_or_none(self.upper_bound),
            "gap": finite_or_none(self.gap),
            "relative_gap": finite_or_none(self.relative_gap),
            "certified": self.certified,
            "found_by": self.solution.found_by,
            "seconds": self.certificate.seconds,
            "boxes": self.certificate.boxes,
            "gap_asked": self.gap_asked,
            "stopped": self.stopped,
            "dual_value": finite_or_none(self.solution.dual_value),
            "multipliers": self.solution.multipliers.constraints.tolist(),
            "unreachable": [str(entry) for entry in self.unreachable],
        }


def find_optimum(
    scenario: Scenario,
    csi: Tensor,
    *,
    problem: Problem | None = None,
    gap: float = 1e-3,
    max_boxes: int | None = None,
    budget_s: float | None = None,
    channel_gap: float | None = None,
    record: bool = False,
    device: str | torch.device = "cpu",
    callbacks: Sequence[Callback] = (),
) -> Optimum:
    """Find the best powers for a set of channels, and certify an upper bound by branch and bound.

    Args:
        scenario: the cell and its radio, for L workers.
        csi: the channels, (N, L, L), linear, relative to the noise power.
        problem: objective and constraints; None for those of the scenario.
        gap: upper bound minus objective at which the search stops. If the dual value exceeds the
            objective by more than three quarters of it, the search stops when the bound exceeds the
            dual value by a quarter of it.
        max_boxes: maximum number of boxes; None: :data:`MAX_BOXES`, or no limit if ``budget_s`` is
            given.
        budget_s: time limit of the search after the dual problem is solved, s; None: no limit. The
            result then depends on the machine.
        channel_gap: largest gap per channel at which the search stops; None to consider the mean
            only.
        device: device of the computation; the result is on the device of the channels.
        record: keep the tree of the branch and bound for a proof (``Certificate.tree``).
        callbacks: called with every ``DualStep``, then with every ``Certificate``.

    Returns:
        The best feasible powers with the upper bound, which is valid for every budget.

    Raises:
        InputError: if ``csi`` is empty, if no worker can satisfy its constraints, or if a
            measure has no known upper bound.
    """
    check_csi(csi, scenario.workers)
    if len(csi) == 0:
        raise InputError("csi: 0 channels were given; accepted: one or more.")
    problem = problem or Problem.from_scenario(scenario)
    unreachable = check_reachable(scenario, csi, problem=problem)
    # Checked with multipliers of one, before the search starts.
    unit = Multipliers(torch.ones_like(problem.thresholds), problem.utility.weights)
    check_provable(Prices.from_problem(problem, scenario, unit))
    moved = csi.to(usable_device(device))
    solution = solve_dual(scenario, moved, problem=problem, callbacks=callbacks)
    certificate = certify(
        ChannelBatch.from_scenario(scenario, moved),
        Prices.from_problem(problem, scenario, solution.multipliers),
        max_boxes=max_boxes,
        budget_s=budget_s,
        gap=gap,
        channel_gap=channel_gap,
        # The duality gap of the feasible powers is part of the allowed gap.
        reached=solution.judgement.objective - solution.constant,
        record=record,
        callbacks=callbacks,
    )
    solution = solution.to(csi.device)
    solution = replace(solution, judgement=judge(scenario, csi, solution.power, problem=problem))
    certificate = certificate.to(csi.device)
    optimum = Optimum(scenario, problem, csi, solution, certificate, unreachable, gap)
    # Branch and bound maximises the Lagrangians further and may have found better powers.
    return optimum.improved_by({SEARCH: certificate.power})
