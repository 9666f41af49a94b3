"""Powers against the largest transmit power, trained and judged at each."""

from __future__ import annotations

from feduplink.experiments.cell_sweep import Sweep
from feduplink.experiments.claims import judged
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.interference import power_claims
from feduplink.experiments.judged_settings import judged_settings
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim

TITLE = "Maximum power"
DATA = None
VERSION = 1
CAPTION = (
    "Pmax from −40 to 0 dBW; policies learned and judged at each. Marks and bars as for "
    "interference."
)
RESULT = Sweep

_SCENARIOS = {
    -40.0: "pmax-minus-40dbw",
    -30.0: "pmax-minus-30dbw",
    -20.0: "default",
    -10.0: "pmax-minus-10dbw",
    0.0: "pmax-0dbw",
}
#: Policies whose objectives differ by less than this count as alike.
_ALIKE = 0.02


def run(context: ExperimentContext) -> Sweep:
    """Judge all policies at each power."""
    scenarios = {dbw: Scenario.load(name) for dbw, name in _SCENARIOS.items()}
    return Sweep.from_settings("Pmax (dBW)", list(scenarios), judged_settings(context, scenarios))


def claims(sweep: Sweep) -> list[Claim]:
    """PDG best at every power, PDM and PDG alike at the smallest."""
    smallest = {name: sweep.mean(name, 0, "objective") for name in ("pdm", "pdg", "optimum")}
    return [
        *power_claims(sweep, "at every Pmax"),
        judged(
            "At the smallest Pmax everyone should transmit at full power, and the learned policies "
            "have found that",
            [
                abs(smallest["pdm"] - smallest["pdg"]) < _ALIKE,
                smallest["optimum"] - smallest["pdg"] < _ALIKE,
            ],
            f"at −40 dBW pdm {smallest['pdm']:.3f} and pdg {smallest['pdg']:.3f}; but the optimum, "
            f"which silences {1 - sweep.mean('optimum', 0, 'participation'):.0%}, has "
            f"{smallest['optimum']:.3f}",
        ),
    ]
