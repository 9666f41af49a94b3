"""Convergence of primal–dual training: constraints by worker, and the objective."""

from __future__ import annotations

from collections.abc import Iterator

from feduplink.experiments import Experiment, ExperimentResult
from feduplink.experiments.claims import judge_claim
from feduplink.experiments.compared import (
    COMPARED,
    LEARNED,
    PolicyOutcome,
    evaluate_setting,
    training_history,
)
from feduplink.experiments.context import ExperimentContext
from feduplink.reporting.style import OPTIMUM, StyledFigure
from feduplink.reporting.training import plot_convergences
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim
from feduplink.training import Epoch, best_epoch


class ConvergenceResult(ExperimentResult):
    """Validation measures of all epochs.

    Attributes:
        histories: epochs by policy and seed.
        others: outcomes of the other policies and of the optimum, for the first seed.
    """

    histories: dict[str, list[list[Epoch]]]
    others: dict[str, PolicyOutcome]

    def rows(self) -> Iterator[dict[str, object]]:
        """Rows per policy, run and epoch; every run has a different seed."""
        for name, seeds in self.histories.items():
            for run, history in enumerate(seeds):
                for epoch in history:
                    yield {
                        "policy": name,
                        "run": run,
                        "epoch": epoch.number + 1,
                        "objective": epoch.objective,
                        "participation": epoch.participation,
                        "violation": epoch.violation,
                    }


class Convergence(Experiment[ConvergenceResult]):
    """Training of ``pdm`` and ``pdg`` at the default setting."""

    name = "convergence"
    title = "Convergence"
    caption = (
        "Mean rate and energy efficiency of each worker with pdg on the validation channels of the "
        "first seed, with the thresholds; and the objective of pdg and pdm for all seeds, thick "
        "where all constraints hold. Dashed: the other policies and the optimum on the test "
        "channels."
    )
    result_type = ConvergenceResult

    def run(self, context: ExperimentContext) -> ConvergenceResult:
        """Train both policies with all seeds."""
        scenario = Scenario()
        grid = [("pdg", scenario), ("pdm", scenario)]
        pdg, pdm = context.map_seeds(training_history, grid, "training runs")
        setting = evaluate_setting(context, scenario, context.seed)
        shown = (*COMPARED, OPTIMUM)
        return ConvergenceResult(
            histories={"pdg": pdg, "pdm": pdm},
            others={name: setting.policies[name] for name in shown if name not in LEARNED},
        )

    def claims(self, result: ConvergenceResult) -> list[Claim]:
        """Claim that training raises the objective of PDG and satisfies both constraints."""
        bests = [best_epoch(history) for history in result.histories["pdg"]]
        starts = [history[0].objective for history in result.histories["pdg"]]
        return [
            judge_claim(
                "Training raises the objective of PDG while both constraints hold for all workers",
                [
                    b.meets_constraints and b.objective > start
                    for b, start in zip(bests, starts, strict=True)
                ],
                "; ".join(
                    f"{start:.3f} to {b.objective:.3f} at epoch {b.number + 1}, "
                    + ("feasible" if b.meets_constraints else f"violation {b.violation:.1%}")
                    for b, start in zip(bests, starts, strict=True)
                ),
            )
        ]

    def plot(self, result: ConvergenceResult, caption: str = "") -> StyledFigure:
        """Draw the constraints of the first seed of ``pdg``, and all objectives."""
        references = {name: outcome.objective for name, outcome in result.others.items()}
        return plot_convergences(result.histories, references, Scenario(), caption)
