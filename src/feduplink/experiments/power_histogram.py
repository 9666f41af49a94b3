"""How powers are spread at the default setting."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel

from feduplink.channels import draw_splits
from feduplink.evaluation import allocate_seen
from feduplink.experiments.bench import Bench
from feduplink.experiments.claims import Claim, judged
from feduplink.experiments.policies import policies_for
from feduplink.experiments.table import csv_text
from feduplink.scenario import Scenario

TITLE = "Allocated powers"
DATA = None
CAPTION = (
    "Powers on the test channels of the default setting, up to Pmax = −20 dBW = 10 mW: linear as "
    "in the paper, and in dBW. Silent workers are left out; their share is written, and that at "
    "Pmax."
)


class PowerHistogram(BaseModel):
    """All powers on the test channels, W, by policy."""

    workers: int
    powers: dict[str, list[float]]

    def to_csv(self) -> str:
        """Quantiles of the powers, mW, and the shares of silence and of full power."""
        quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)
        rows = (
            [
                name,
                f"{np.mean(watts <= 0):.4f}",
                f"{_at_most(watts):.4f}",
                *(f"{1e3 * value:.4g}" for value in np.quantile(watts, quantiles)),
            ]
            for name, watts in ((name, np.array(powers)) for name, powers in self.powers.items())
        )
        header = ["policy", "silent", "at_pmax", *(f"quantile_{q:g}_mw" for q in quantiles)]
        return csv_text(header, rows)


RESULT = PowerHistogram


def run(bench: Bench) -> PowerHistogram:
    """Allocate powers with every policy."""
    scenario = Scenario()
    csi = draw_splits(scenario, bench.scale.channels, seed=bench.seed).test
    powers = {
        name: [float(f"{p:.5g}") for p in allocate_seen(policy, csi, scenario).flatten().tolist()]
        for name, policy in policies_for(bench, scenario, bench.seed).items()
    }
    return PowerHistogram(workers=scenario.workers, powers=powers)


def _at_most(watts: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(np.mean(watts >= 0.99 * float(Scenario().pmax_w)))


def claims(result: PowerHistogram) -> list[Claim]:
    """PDM works in extremes, PDG around 5 mW."""
    pdm, pdg = (np.array(result.powers[name]) for name in ("pdm", "pdg"))
    middle = float(np.mean((pdg > 2.5e-3) & (pdg < 7.5e-3)))
    return [
        judged(
            "PDM sends at full power in a large number of cases (over a quarter) and silences most "
            "of the others",
            [_at_most(pdm) > 0.25, float(np.mean(pdm < 1e-4)) > 0.5 * (1 - _at_most(pdm))],
            f"pdm: {_at_most(pdm):.0%} at full power, {np.mean(pdm < 1e-4):.0%} under 0.1 mW; "
            f"median {1e3 * np.median(pdm):.2f} mW",
        ),
        judged(
            "PDG's powers are spread smoothly around 5 mW (most between 2.5 and 7.5 mW)",
            [middle > 0.5],
            f"pdg: {middle:.0%} there, {_at_most(pdg):.0%} at full power, median "
            f"{1e3 * np.median(pdg):.2f} mW",
        ),
    ]
