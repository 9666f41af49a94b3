"""What a federated model costs: error against seconds on the air and joules."""

from __future__ import annotations

import math
from typing import Literal

from feduplink.experiments.bench import Bench
from feduplink.experiments.claims import Claim, judged
from feduplink.experiments.federations import ALL, Comparison, Federations, federation
from feduplink.experiments.iid import EXACT

TITLE = "Time and energy"
DATA = "mnist"
CAPTION = (
    "Digits with the stated average: error against rounds, against the time of the uploads so far "
    "(180 kHz, 32 bits a weight, a round lasts as long as its slowest upload), and against the "
    "energy that all workers spent. ideal has no cost."
)
RESULT = Federations


def run(bench: Bench) -> Federations:
    """One comparison, with full power as well."""
    comparison = Comparison("images", bench.scale.runs, (*ALL, "max"))
    return Federations(comparisons={EXACT: federation(bench, comparison)})


def claims(result: Federations) -> list[Claim]:
    """Cheaper rounds than full power and than open loop."""
    history = result.comparisons[EXACT]
    shown = ("max", "rand", "orth", "pdm", "pdg", "openloop", "dual", "pdx")

    def costs_of(kind: Literal["airtime_s", "energy_j"]) -> dict[str, float]:
        medians = {name: history.median_cost(name, kind) for name in shown}
        return {name: math.nan if cost is None else cost for name, cost in medians.items()}

    seconds, joules = costs_of("airtime_s"), costs_of("energy_j")
    costs = (seconds, joules)
    measured = ", ".join(f"{n} {seconds[n]:.3g} s / {joules[n]:.3g} J" for n in shown)
    return [
        judged(
            "(ours) A round with pdx takes at most a tenth of the time and energy of full power",
            [cost["pdx"] <= cost["max"] / 10 for cost in costs],
            f"median round: {measured}",
        ),
        judged(
            "(ours) A round with pdx takes less time and energy than with open loop",
            [cost["pdx"] < cost["openloop"] for cost in costs],
            f"median round: openloop {seconds['openloop']:.3g} s / {joules['openloop']:.3g} J, pdx "
            f"{seconds['pdx']:.3g} s / {joules['pdx']:.3g} J",
        ),
    ]
