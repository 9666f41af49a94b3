"""The optimum on a set of channels: the best policy found, and proof of how close it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from feduplink.channels.csi import check_csi
from feduplink.errors import InputError
from feduplink.judgement import Judgement, judge
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices
from feduplink.optimum.bounds import Unreachable, check_reachable, interference_free_bound
from feduplink.optimum.branch_and_bound import Certificate
from feduplink.optimum.certificate import certify, check_provable
from feduplink.optimum.dual import SEARCH, DualSolution, solve_dual
from feduplink.optimum.primal_recovery import MET, repaired
from feduplink.problem import Problem
from feduplink.progress import Callback
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import finite_or_none
from feduplink.tables import TextTable
from feduplink.validation import usable_device

#: An optimum counts as certified if the bound is above it by at most this share of it.
CERTIFIED_GAP = 0.02


@dataclass(frozen=True, repr=False)
class Optimum:
    """The best powers found on some channels, with a proof of how good they are.

    No policy that meets the constraints on these channels has an objective above
    ``upper_bound``; ``power`` meets them and reaches ``objective``.

    Attributes:
        scenario: the cell and its radio.
        problem: what was to be solved.
        csi: the channels, (N, L, L).
        solution: the best powers, the multipliers, and how they were found.
        certificate: bounds on the largest Lagrangian of every channel.
        unreachable: workers that their thresholds shut out.
    """

    scenario: Scenario
    problem: Problem
    csi: Tensor
    solution: DualSolution
    certificate: Certificate
    unreachable: list[Unreachable]

    @property
    def power(self) -> Tensor:
        """The best powers found that meet the constraints, (N, L) W."""
        return self.solution.power

    @property
    def objective(self) -> float:
        """What these powers reach."""
        return self.solution.judgement.objective

    @property
    def upper_bound(self) -> float:
        """What nobody exceeds: the certificate, or what nobody would without interference."""
        proved = float(self.certificate.upper.mean()) + self.solution.constant
        direct = self.csi.diagonal(dim1=-2, dim2=-1)
        possible = interference_free_bound(self.problem, self.scenario.pmax_w, direct)
        # Where the bound is reached, rounding may put it under the objective.
        return max(min(proved, possible), self.objective)

    @property
    def gap(self) -> float:
        """upper_bound − objective, at least 0; infinite if some weighted worker is never heard."""
        return self.upper_bound - self.objective

    @property
    def relative_gap(self) -> float:
        """By which share of the optimum the bound is above it; infinite if that is nothing.

        What is compared are weighted means over the workers, for the weighted sum the arithmetic
        and for proportional fairness the geometric one, see :mod:`feduplink.problem`.
        """
        return self.problem.utility.relative_gap(self.objective, self.upper_bound)

    @property
    def certified(self) -> bool:
        """Whether the relative gap is at most :data:`CERTIFIED_GAP`."""
        return self.relative_gap <= CERTIFIED_GAP

    def __repr__(self) -> str:
        """What was found, and what is proved, on one line."""
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
            **({"shut out": f"{len(self.unreachable)} workers"} if self.unreachable else {}),
        }

    def below(self, judgement: Judgement) -> float | None:
        """How far a policy judged on these channels is below the optimum, at least 0.

        None if it misses a constraint on these channels, which the optimum does not, or if the
        distance is infinite.
        """
        if judgement.violation > MET:
            return None
        return finite_or_none(max(self.objective - judgement.objective, 0.0))

    def improved_by(self, powers: Mapping[str, Tensor]) -> Optimum:
        """The best of this and of other powers on the same channels, (N, L) W each by name.

        Powers that miss a constraint are repaired first. So no policy that is judged beside the
        optimum and meets the constraints is above it.
        """
        batch = ChannelBatch.from_scenario(self.scenario, self.csi)
        solution = self.solution
        for name, power in powers.items():
            mended = repaired(power, batch, self.problem)
            verdict = judge(mended, self.csi, self.scenario, self.problem)
            solution = solution.improved_by(name, mended, verdict)
        return replace(self, solution=solution)

    def as_metrics(self) -> dict[str, Any]:
        """The ``optimum`` entry of ``metrics.json``; what is infinite is None."""
        verdict = self.solution.judgement.as_metrics()
        return {
            "objective": verdict["objective"],
            "upper_bound": finite_or_none(self.upper_bound),
            "gap": finite_or_none(self.gap),
            "relative_gap": finite_or_none(self.relative_gap),
            "certified": self.certified,
            "found_by": self.solution.found_by,
            **{
                value.key: verdict[value.key]
                for value in self.solution.judgement.constraints.values()
            },
            "feasible": verdict["feasible"],
            "shortfall": verdict["shortfall"],
            "participation": verdict["participation"],
            "weighted_per": verdict["weighted_per"],
            "seconds": self.certificate.seconds,
            "boxes": self.certificate.boxes,
            "dual_value": finite_or_none(self.solution.dual_value),
            "multipliers": self.solution.multipliers.constraints.tolist(),
            "unreachable": [str(entry) for entry in self.unreachable],
        }


def find_optimum(
    scenario: Scenario,
    csi: Tensor,
    problem: Problem | None = None,
    *,
    max_boxes: int | None = None,
    budget_s: float | None = None,
    target_gap: float = 1e-3,
    channel_gap: float | None = None,
    record: bool = False,
    device: str | torch.device = "cpu",
    callbacks: Sequence[Callback] = (),
) -> Optimum:
    """Solve the problem on channels (N, L, L), then certify the solution.

    Args:
        scenario: the cell and its radio; its ``workers`` must be the channels' L.
        csi: the channels.
        problem: what to solve; None is what the scenario describes.
        max_boxes: number of boxes after which the certificate stops; None: :data:`MAX_BOXES`, or no
            limit if there is one in seconds.
        budget_s: time after which the certificate stops, on top of that of the solution, s; None:
            no limit. Where it stops then depends on the machine.
        target_gap: the certificate stops earlier when the bound is above the objective by no more
            than this; or, where the dual value is above it by more than three quarters of this,
            when the bound is above the dual value by the last quarter.
        channel_gap: and, if given, no channel's gap is above this.
        device: where the search runs; what it finds is where the channels are.
        record: keep the tree of the branch and bound, for a proof (``Certificate.tree``).
        callbacks: called after every evaluation of the dual function (``DualStep``), then of every
            improvement of the bound (``Certificate``).
    """
    check_csi(csi, scenario.workers)
    if len(csi) == 0:
        raise InputError("csi: there are no channels; accepted: one or more.")
    problem = problem or Problem.from_scenario(scenario)
    out_of_reach = check_reachable(problem, scenario, csi)
    some = Multipliers(torch.ones_like(problem.thresholds), problem.utility.weights)
    check_provable(Prices.from_problem(problem, scenario, some))  # before anything takes long
    moved = csi.to(usable_device(device))
    solution = solve_dual(scenario, moved, problem, callbacks=callbacks)
    certificate = certify(
        ChannelBatch.from_scenario(scenario, moved),
        Prices.from_problem(problem, scenario, solution.multipliers),
        max_boxes=max_boxes,
        budget_s=budget_s,
        target_gap=target_gap,
        channel_gap=channel_gap,
        # Part of the gap lies between the dual value and what powers that meet the constraints
        # reach.
        reached=solution.judgement.objective - solution.constant,
        record=record,
        callbacks=callbacks,
    )
    solution = solution.to(csi.device)
    solution = replace(solution, judgement=judge(solution.power, csi, scenario, problem))
    certificate = certificate.to(csi.device)
    optimum = Optimum(scenario, problem, csi, solution, certificate, out_of_reach)
    # The certificate searches on at the last prices and may have found better powers.
    return optimum.improved_by({SEARCH: certificate.power})
