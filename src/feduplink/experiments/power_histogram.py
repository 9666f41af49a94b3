"""Distribution of the allocated powers at the default setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import torch
from pydantic import BaseModel

from feduplink.channels import make_channels
from feduplink.experiments import Experiment, ExperimentResult
from feduplink.experiments.claims import judge_claim
from feduplink.experiments.compared import make_compared
from feduplink.experiments.context import ExperimentContext
from feduplink.reporting.comparison import plot_powers
from feduplink.reporting.style import StyledFigure
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim
from feduplink.workflows import evaluate


class PowerDistribution(BaseModel):
    """Shares and percentiles of the powers of one policy.

    Attributes:
        silent: share of powers equal to 0.
        weak: share below 0.1 mW.
        middle: share between 2.5 and 7.5 mW.
        at_pmax: share within 1 % of Pmax.
        percentile_5_mw, percentile_25_mw, median_mw, percentile_75_mw, percentile_95_mw:
            percentiles in mW.
    """

    silent: float
    weak: float
    middle: float
    at_pmax: float
    percentile_5_mw: float
    percentile_25_mw: float
    median_mw: float
    percentile_75_mw: float
    percentile_95_mw: float

    @classmethod
    def from_powers(cls, powers_w: Sequence[float]) -> Self:
        """Summarise powers in W at the default setting."""
        watts = np.array(powers_w)
        low, lower, median, upper, high = 1e3 * np.quantile(watts, (0.05, 0.25, 0.5, 0.75, 0.95))
        return cls(
            silent=float(np.mean(watts <= 0)),
            weak=float(np.mean(watts < 1e-4)),
            middle=float(np.mean((watts > 2.5e-3) & (watts < 7.5e-3))),
            at_pmax=float(np.mean(watts >= 0.99 * float(Scenario().max_power))),
            percentile_5_mw=low,
            percentile_25_mw=lower,
            median_mw=median,
            percentile_75_mw=upper,
            percentile_95_mw=high,
        )


class PowerHistogramResult(ExperimentResult):
    """Powers on the test channels and their distribution.

    Attributes:
        workers: number of workers L.
        powers: powers in W by policy, L for each channel in turn.
        distributions: their distribution by policy.
    """

    workers: int
    powers: dict[str, list[float]]
    distributions: dict[str, PowerDistribution]

    @classmethod
    def from_powers(cls, workers: int, powers: dict[str, list[float]]) -> Self:
        """Summarise powers in W by policy."""
        distributions = {name: PowerDistribution.from_powers(p) for name, p in powers.items()}
        return cls(workers=workers, powers=powers, distributions=distributions)

    def rows(self) -> Iterator[dict[str, object]]:
        """Rows per policy: the distribution of its powers."""
        for name, distribution in self.distributions.items():
            yield {"policy": name, **distribution.model_dump()}


class PowerHistogram(Experiment[PowerHistogramResult]):
    """Distribution of the powers of every policy."""

    name = "power-histogram"
    title = "Allocated powers"
    caption = (
        "Cumulative distribution of the powers on the test channels of the default setting, up to "
        "Pmax = 10 dBm = 10 mW. The legend has the share of silent workers and the share at Pmax."
    )
    result_type = PowerHistogramResult

    def run(self, context: ExperimentContext) -> PowerHistogramResult:
        """Allocate powers with every policy."""
        scenario = Scenario()
        csi = make_channels(scenario, context.scale.channels, seed=context.seed).test
        policies = make_compared(context, scenario, context.seed)
        powers = {
            name: [float(f"{p:.5g}") for p in outcome.power.flatten().tolist()]
            for name, outcome in evaluate(scenario, policies, channels=csi).items()
        }
        return PowerHistogramResult.from_powers(scenario.workers, powers)

    def claims(self, result: PowerHistogramResult) -> list[Claim]:
        """Claims that PDM transmits at full power or is silent, and PDG at around 5 mW."""
        pdm, pdg = result.distributions["pdm"], result.distributions["pdg"]
        return [
            judge_claim(
                "PDM transmits at full power in many cases (over a quarter) and silences most "
                "workers in the others",
                [pdm.at_pmax > 0.25, pdm.weak > 0.5 * (1 - pdm.at_pmax)],
                f"pdm: {pdm.at_pmax:.0%} at full power, {pdm.weak:.0%} below 0.1 mW, median "
                f"{pdm.median_mw:.2f} mW",
            ),
            judge_claim(
                "The powers of PDG are distributed smoothly around 5 mW (most between 2.5 and "
                "7.5 mW)",
                [pdg.middle > 0.5],
                f"pdg: {pdg.middle:.0%} between 2.5 and 7.5 mW, {pdg.at_pmax:.0%} at full power, "
                f"median {pdg.median_mw:.2f} mW",
            ),
        ]

    def plot(self, result: PowerHistogramResult, caption: str = "") -> StyledFigure:
        """Draw the cumulative distributions, with the alternative text of that figure."""
        powers = {
            name: torch.tensor(values).view(-1, result.workers)
            for name, values in result.powers.items()
        }
        return plot_powers(powers, Scenario())
