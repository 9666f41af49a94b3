"""How many uploads arrive in a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from pydantic import BaseModel

from feduplink.experiments.claims import judged, lower, mean_and_error
from feduplink.experiments.compared_policies import READINGS, policies_for
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.table import csv_rows, csv_text
from feduplink.federated import Ideal, Sender
from feduplink.federated.uplink.access import transmit
from feduplink.federated.uplink.rounds import Rounds, UplinkRules, everyone
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim

TITLE = "Arrivals"
DATA = None
VERSION = 1
CAPTION = (
    "Uploads that arrive in each of 50 rounds with 8 workers, over all runs and seeds, and their "
    "mean with its standard error over the seeds. rand and orth silence workers that would miss a "
    "threshold, as the paper's text says; :unselected silence nobody, as its code does."
)

_ROUNDS = 50
#: Arrivals depend on the channels alone; airtimes, which are not used here, on the model's size.
_BITS = torch.tensor(1.0, dtype=torch.float64)
#: Columns of the CSV file: the rounds in which so many uploads arrived.
_ROUNDS_WITH = "rounds_with_"


class Arrivals(BaseModel):
    """Arrivals of every round, by policy and by seed."""

    arrivals: dict[str, list[list[int]]]

    def to_csv(self) -> str:
        """One row per policy and seed.

        The five numbers of its box, the mean, the deviation, and in how many rounds n uploads
        arrived.
        """
        quantiles = ("least", "lower_quartile", "median", "upper_quartile", "most")
        most = max(
            count for seeds in self.arrivals.values() for counts in seeds for count in counts
        )
        rows = (
            [
                name,
                run,
                *np.quantile(counts, (0, 0.25, 0.5, 0.75, 1)),
                np.mean(counts),
                np.std(counts),
                *(counts.count(n) for n in range(most + 1)),
            ]
            for name, seeds in self.arrivals.items()
            for run, counts in enumerate(seeds)
        )
        rounds = (f"{_ROUNDS_WITH}{n}" for n in range(most + 1))
        return csv_text(["policy", "run", *quantiles, "mean", "deviation", *rounds], rows)

    @classmethod
    def from_csv(cls, text: str) -> Arrivals:
        """What :meth:`to_csv` wrote, with the rounds of a seed in ascending order."""
        found: dict[str, list[list[int]]] = {}
        for row in csv_rows(text, ["policy", "run", f"{_ROUNDS_WITH}0"]):
            counts = [
                int(column.removeprefix(_ROUNDS_WITH))
                for column, rounds in row.items()
                if column.startswith(_ROUNDS_WITH)
                for _ in range(int(rounds))
            ]
            found.setdefault(row["policy"], []).append(counts)
        return cls(arrivals=found)


RESULT = Arrivals


def run(context: ExperimentContext) -> Arrivals:
    """Simulate the uplink alone, with the policies and channels of every seed."""
    by_seed = context.map(_simulated, [(seed,) for seed in context.seeds], "seeds")
    return Arrivals(arrivals={name: [found[name] for found in by_seed] for name in by_seed[0]})


def _simulated(context: ExperimentContext, seed: int) -> dict[str, list[int]]:
    scenario = Scenario()
    policies: dict[str, Sender] = {"ideal": Ideal(), **policies_for(context, scenario, seed)}
    rules = UplinkRules(scenario, _BITS)
    present = everyone(_ROUNDS, scenario.workers)
    rounds = [Rounds.draw(scenario, present, seed=seed, run=n) for n in range(context.scale.runs)]
    return {
        name: [
            count
            for channels in rounds
            for count in transmit(policy, channels, rules).arrived.sum(-1).tolist()
        ]
        for name, policy in policies.items()
    }


def claims(result: Arrivals) -> list[Claim]:
    """PDG has the largest average and the smallest variance."""
    workers = Scenario().workers
    lost = {
        name: [workers - float(np.mean(counts)) for counts in seeds]
        for name, seeds in result.arrivals.items()
    }
    spread = {
        name: [float(np.std(counts)) for counts in seeds] for name, seeds in result.arrivals.items()
    }
    arrived = {name: [workers - value for value in values] for name, values in lost.items()}
    found = []
    for reading, baselines in READINGS.items():
        others = ("pdm", *baselines)
        found += [
            judged(
                f"More uploads arrive with PDG than with PDM, Rand and Orth ({reading})",
                [lower(lost["pdg"], lost[name]) for name in others],
                _in_words(arrived),
            ),
            judged(
                f"Their number varies least with PDG ({reading})",
                [lower(spread["pdg"], spread[name]) for name in others],
                f"standard deviations: {_in_words(spread)}",
            ),
        ]
    return found


def _in_words(values: Mapping[str, Sequence[float]]) -> str:
    """Means over the seeds, and their standard errors."""
    return ", ".join(f"{name} {mean_and_error(seeds, 2)}" for name, seeds in values.items())
