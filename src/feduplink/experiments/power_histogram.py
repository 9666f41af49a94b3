"""How powers are spread at the default setting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel

from feduplink.channels import make_channels
from feduplink.evaluation import allocate_seen
from feduplink.experiments.claims import judged
from feduplink.experiments.compared_policies import policies_for
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.table import csv_rows, csv_text
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim

TITLE = "Allocated powers"
DATA = None
VERSION = 1
CAPTION = (
    "Powers on the test channels of the default setting, up to Pmax = −20 dBW = 10 mW: linear as "
    "in the paper, and in dBW. Silent workers are left out; their share is written, and that at "
    "Pmax."
)


class Spread(BaseModel):
    """Of the powers of one policy.

    Attributes:
        silent: share of powers that are 0.
        weak: share under 0.1 mW.
        middle: share between 2.5 and 7.5 mW.
        at_pmax: share within 1 % of Pmax.
        percentile_5_mw, …, percentile_95_mw: mW; ``median_mw`` is the 50th.
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
    def from_powers(cls, powers: Sequence[float]) -> Spread:
        """From powers in W at the default setting."""
        watts = np.array(powers)
        low, lower, median, upper, high = 1e3 * np.quantile(watts, (0.05, 0.25, 0.5, 0.75, 0.95))
        return cls(
            silent=float(np.mean(watts <= 0)),
            weak=float(np.mean(watts < 1e-4)),
            middle=float(np.mean((watts > 2.5e-3) & (watts < 7.5e-3))),
            at_pmax=float(np.mean(watts >= 0.99 * float(Scenario().pmax_w))),
            percentile_5_mw=low,
            percentile_25_mw=lower,
            median_mw=median,
            percentile_75_mw=upper,
            percentile_95_mw=high,
        )


class PowerHistogram(BaseModel):
    """All powers on the test channels, W, by policy, and how they are spread."""

    workers: int
    powers: dict[str, list[float]]
    spreads: dict[str, Spread]

    @classmethod
    def from_powers(cls, workers: int, powers: dict[str, list[float]]) -> PowerHistogram:
        """From the powers, W, and how they are spread."""
        spreads = {name: Spread.from_powers(watts) for name, watts in powers.items()}
        return cls(workers=workers, powers=powers, spreads=spreads)

    def to_csv(self) -> str:
        """One row per policy: its spread."""
        rows = ([name, *spread.model_dump().values()] for name, spread in self.spreads.items())
        return csv_text(["policy", *Spread.model_fields], rows)

    @classmethod
    def from_csv(cls, text: str) -> PowerHistogram:
        """What :meth:`to_csv` wrote: without the powers."""
        rows = csv_rows(text, ["policy", *Spread.model_fields])
        spreads = {row["policy"]: Spread.model_validate(row) for row in rows}
        return cls(workers=Scenario().workers, powers={}, spreads=spreads)


RESULT = PowerHistogram


def run(context: ExperimentContext) -> PowerHistogram:
    """Allocate powers with every policy."""
    scenario = Scenario()
    csi = make_channels(scenario, context.scale.channels, seed=context.seed).test
    powers = {
        name: [float(f"{p:.5g}") for p in allocate_seen(policy, csi, scenario).flatten().tolist()]
        for name, policy in policies_for(context, scenario, context.seed).items()
    }
    return PowerHistogram.from_powers(scenario.workers, powers)


def claims(result: PowerHistogram) -> list[Claim]:
    """PDM works in extremes, PDG around 5 mW."""
    pdm, pdg = result.spreads["pdm"], result.spreads["pdg"]
    return [
        judged(
            "PDM sends at full power in a large number of cases (over a quarter) and silences most "
            "of the others",
            [pdm.at_pmax > 0.25, pdm.weak > 0.5 * (1 - pdm.at_pmax)],
            f"pdm: {pdm.at_pmax:.0%} at full power, {pdm.weak:.0%} under 0.1 mW; "
            f"median {pdm.median_mw:.2f} mW",
        ),
        judged(
            "PDG's powers are spread smoothly around 5 mW (most between 2.5 and 7.5 mW)",
            [pdg.middle > 0.5],
            f"pdg: {pdg.middle:.0%} there, {pdg.at_pmax:.0%} at full power, median "
            f"{pdg.median_mw:.2f} mW",
        ),
    ]
