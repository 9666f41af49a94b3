"""How many uploads arrive in a round."""

from __future__ import annotations

import numpy as np
import torch
from pydantic import BaseModel

from feduplink.experiments.bench import Bench
from feduplink.experiments.claims import Claim, judged
from feduplink.experiments.policies import policies_for
from feduplink.experiments.table import csv_text
from feduplink.federated import Ideal
from feduplink.federated.uplink import Rounds, everyone, transmit
from feduplink.policies import Orthogonal, Policy, RandomPower
from feduplink.scenario import Scenario

TITLE = "Arrivals"
DATA = None
CAPTION = (
    "Uploads that arrive in each of 50 rounds with 8 workers, over all runs, and their mean. rand "
    "and orth silence workers that would miss a threshold, as the paper's text says; the boxes "
    ":unselected silence nobody, as its code does."
)

_ROUNDS = 50
#: Arrivals depend on the channels alone; airtimes, which are not used here, on the model's size.
_BITS = torch.tensor(1.0, dtype=torch.float64)


class Arrivals(BaseModel):
    """Arrivals of every round of all runs, by policy."""

    arrivals: dict[str, list[int]]

    def to_csv(self) -> str:
        """The five numbers of each box, and the mean."""
        header = ["policy", "least", "lower_quartile", "median", "upper_quartile", "most", "mean"]
        rows = (
            [
                name,
                *(f"{value:g}" for value in np.quantile(counts, (0, 0.25, 0.5, 0.75, 1))),
                f"{np.mean(counts):.3f}",
            ]
            for name, counts in self.arrivals.items()
        )
        return csv_text(header, rows)


RESULT = Arrivals


def run(bench: Bench) -> Arrivals:
    """Simulate the uplink alone."""
    scenario = Scenario()
    policies: dict[str, Policy | Ideal] = {
        "ideal": Ideal(),
        **policies_for(bench, scenario, bench.seed),
        "rand:unselected": RandomPower(scenario, seed=bench.seed, selection=False),
        "orth:unselected": Orthogonal(scenario, selection=False),
    }
    present = everyone(_ROUNDS, scenario.workers)
    rounds = [
        Rounds.draw(scenario, present, seed=bench.seed, run=run) for run in range(bench.scale.runs)
    ]
    return Arrivals(
        arrivals={
            name: [
                count
                for channels in rounds
                for count in transmit(policy, channels, scenario, _BITS).arrived.sum(-1).tolist()
            ]
            for name, policy in policies.items()
        }
    )


def claims(result: Arrivals) -> list[Claim]:
    """PDG has the largest average and the smallest variance."""
    others = ("pdm", "rand", "orth", "rand:unselected", "orth:unselected")
    mean = {name: float(np.mean(counts)) for name, counts in result.arrivals.items()}
    spread = {name: float(np.std(counts)) for name, counts in result.arrivals.items()}
    return [
        judged(
            "More uploads arrive with PDG than with PDM, Rand and Orth",
            [mean["pdg"] > mean[name] for name in others],
            ", ".join(f"{name} {value:.2f}" for name, value in mean.items()),
        ),
        judged(
            "Their number varies least with PDG",
            [spread["pdg"] < spread[name] for name in others],
            "standard deviations: "
            + ", ".join(f"{name} {value:.2f}" for name, value in spread.items()),
        ),
    ]
