"""Number of uploads that arrive in a round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from feduplink.experiments import Experiment, ExperimentResult
from feduplink.experiments.claims import format_mean_and_error, is_lower, judge_claim
from feduplink.experiments.compared import READINGS, make_compared
from feduplink.experiments.context import ExperimentContext
from feduplink.federated import Rounds, UplinkRules, everyone, transmit
from feduplink.policies import Ideal, Policy
from feduplink.reporting.federated import plot_arrivals
from feduplink.reporting.style import StyledFigure
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim

_ROUNDS = 50
#: Size of an upload, bits; arrivals do not depend on it.
_BITS = torch.tensor(1.0, dtype=torch.float64)
_QUANTILES = {"least": 0, "lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75, "most": 1}


class ArrivalsResult(ExperimentResult):
    """Number of arrivals in every round.

    Attributes:
        arrivals: numbers by policy, seed and round.
    """

    arrivals: dict[str, list[list[int]]]

    def by_seed(self, statistic: str) -> dict[str, list[float]]:
        """The ``mean`` or ``std`` over the rounds, by policy and seed."""
        reduce = getattr(np, statistic)
        return {
            name: [float(reduce(counts)) for counts in seeds]
            for name, seeds in self.arrivals.items()
        }

    def rows(self) -> Iterator[dict[str, object]]:
        """Rows per policy and seed: quantiles, mean, standard deviation and histogram."""
        means, deviations = self.by_seed("mean"), self.by_seed("std")
        most = max(count for seeds in self.arrivals.values() for row in seeds for count in row)
        for name, seeds in self.arrivals.items():
            for run, counts in enumerate(seeds):
                quantiles = np.quantile(counts, list(_QUANTILES.values()))
                yield {
                    "policy": name,
                    "run": run,
                    **dict(zip(_QUANTILES, quantiles, strict=True)),
                    "mean": means[name][run],
                    "deviation": deviations[name][run],
                    **{f"rounds_with_{n}": counts.count(n) for n in range(most + 1)},
                }


class Arrivals(Experiment[ArrivalsResult]):
    """Arrivals per round with every policy at the default setting."""

    name = "arrivals"
    title = "Arrivals"
    caption = (
        "Uploads that arrive in each of 50 rounds with 8 workers, over all runs and seeds, and "
        "their mean with its standard error over the seeds. rand and orth silence workers that "
        "would violate a constraint, as in the paper's text; :unselected silence none, as in its "
        "code."
    )
    result_type = ArrivalsResult

    def run(self, context: ExperimentContext) -> ArrivalsResult:
        """Simulate the uplink for the policies and channels of every seed."""
        (by_seed,) = context.map_seeds(_simulate, [()], "seeds")
        return ArrivalsResult(
            arrivals={name: [found[name] for found in by_seed] for name in by_seed[0]}
        )

    def claims(self, result: ArrivalsResult) -> list[Claim]:
        """Claims that PDG has the largest mean and the smallest standard deviation."""
        workers, arrived = Scenario().workers, result.by_seed("mean")
        lost = {name: [workers - mean for mean in seeds] for name, seeds in arrived.items()}
        deviation = result.by_seed("std")
        found = []
        for reading, baselines in READINGS.items():
            others = ("pdm", *baselines)
            found += [
                judge_claim(
                    f"More uploads arrive with PDG than with PDM, Rand and Orth ({reading})",
                    [is_lower(lost["pdg"], lost[name]) for name in others],
                    _format_seeds(arrived),
                ),
                judge_claim(
                    f"The number of arrivals varies least with PDG ({reading})",
                    [is_lower(deviation["pdg"], deviation[name]) for name in others],
                    f"standard deviations: {_format_seeds(deviation)}",
                ),
            ]
        return found

    def plot(self, result: ArrivalsResult, caption: str = "") -> StyledFigure:
        """Draw a box per policy."""
        return plot_arrivals(result.arrivals, caption)


def _simulate(context: ExperimentContext, seed: int) -> dict[str, list[int]]:
    """Return the number of arrivals in every round of all runs, by policy."""
    scenario = Scenario()
    policies: dict[str, Policy] = {
        "ideal": Ideal(scenario),
        **make_compared(context, scenario, seed),
    }
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


def _format_seeds(values: Mapping[str, Sequence[float]]) -> str:
    """Format means over the seeds and their standard errors."""
    return ", ".join(f"{name} {format_mean_and_error(v, 2)}" for name, v in values.items())
