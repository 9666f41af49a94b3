"""Primal–dual learning, epoch by epoch: constraints by worker, and the objective."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from feduplink.experiments.claims import judged
from feduplink.experiments.compared_policies import COMPARED, LEARNED, training_history
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.judged_settings import Figures, judged_setting
from feduplink.experiments.table import csv_rows, csv_text
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim
from feduplink.training import Epoch, best_epoch

TITLE = "Convergence"
DATA = None
VERSION = 1
CAPTION = (
    "pdg on its validation channels: mean rate and energy efficiency of each worker against the "
    "threshold, for the first seed; and the objective of pdg and pdm for all seeds, thick where "
    "every worker meets both constraints. Dashed: the other policies and the optimum on the test "
    "channels."
)

#: Columns of the CSV file, fields of :class:`~feduplink.training.Epoch`.
_FIGURES = ("objective", "participation", "violation")


class Convergence(BaseModel):
    """The validation figures of all epochs, by seed."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    histories: dict[str, list[list[Epoch]]]
    others: dict[str, Figures]

    def to_csv(self) -> str:
        """One row per policy, run and epoch; every run has a seed of its own."""
        rows = (
            [name, run, epoch.number + 1, *(getattr(epoch, figure) for figure in _FIGURES)]
            for name, seeds in self.histories.items()
            for run, history in enumerate(seeds)
            for epoch in history
        )
        return csv_text(["policy", "run", "epoch", *_FIGURES], rows)

    @classmethod
    def from_csv(cls, text: str) -> Convergence:
        """What :meth:`to_csv` wrote: without the figures by worker, verdicts and other policies."""
        found: dict[str, dict[str, list[Epoch]]] = {}
        for row in csv_rows(text, ["policy", "run", "epoch", *_FIGURES]):
            epoch = Epoch(
                number=int(row["epoch"]) - 1,
                feasible=None,
                constraints={},
                worst={},
                objective=float(row["objective"]),
                participation=float(row["participation"]),
                violation=float(row["violation"]),
            )
            found.setdefault(row["policy"], {}).setdefault(row["run"], []).append(epoch)
        histories = {name: list(runs.values()) for name, runs in found.items()}
        return cls(histories=histories, others={})


RESULT = Convergence


def run(context: ExperimentContext) -> Convergence:
    """Train both learned policies of the default setting."""
    scenario = Scenario()
    grid = [(name, scenario, seed) for name in ("pdg", "pdm") for seed in context.seeds]
    histories = context.map(training_history, grid, "training runs")
    count = len(context.seeds)
    setting = judged_setting(context, scenario, context.seed)
    shown = (*COMPARED, "optimum")
    return Convergence(
        histories={"pdg": histories[:count], "pdm": histories[count:]},
        others={name: setting.policies[name] for name in shown if name not in LEARNED},
    )


def claims(result: Convergence) -> list[Claim]:
    """PDG raises the objective and ends with both constraints met."""
    bests = [best_epoch(history) for history in result.histories["pdg"]]
    starts = [history[0].objective for history in result.histories["pdg"]]
    return [
        judged(
            "PDG learns to raise the objective while both constraints hold for all workers",
            [b.met and b.objective > start for b, start in zip(bests, starts, strict=True)],
            "; ".join(
                f"{start:.3f} to {b.objective:.3f} at epoch {b.number + 1}, "
                + ("met" if b.met else f"{b.violation:.1%} short")
                for b, start in zip(bests, starts, strict=True)
            ),
        )
    ]
