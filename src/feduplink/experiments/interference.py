"""Powers against the strength of interference, trained and judged at each strength."""

from __future__ import annotations

from feduplink.experiments.cell_sweep import Loss, Sweep
from feduplink.experiments.claims import judged
from feduplink.experiments.compared_policies import LEARNED, READINGS
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.judged_settings import judged_settings
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim

TITLE = "Interference"
DATA = None
VERSION = 1
CAPTION = (
    "Interference scaled by 1, 2, 4 and 8; policies learned and judged at each strength. Left: the "
    "paper's figure. It counts transmitting workers only, so it is shown with what a policy "
    "achieves in all and with how many it lets transmit. Hollow marks: a "
    "constraint is shown to be missed with one seed or more; half-filled: cannot be told on 10,000 "
    "channels. Bars: from the worst to the best seed. rand and orth silence workers that would "
    "miss a threshold, as the paper's text says; :unselected silence nobody, as its code does."
)
RESULT = Sweep

_SCENARIOS = {
    1.0: "default",
    2.0: "interference-x2",
    4.0: "interference-x4",
    8.0: "interference-x8",
}


def run(context: ExperimentContext) -> Sweep:
    """Judge all policies at each strength."""
    scenarios = {factor: Scenario.load(name) for factor, name in _SCENARIOS.items()}
    settings = judged_settings(context, scenarios)
    return Sweep.from_settings("interference", list(scenarios), settings, logarithmic=True)


def claims(sweep: Sweep) -> list[Claim]:
    """PDG under PDM, and both under Rand and Orth, at every strength."""
    return power_claims(sweep, "at every interference strength")


def power_claims(sweep: Sweep, everywhere: str) -> list[Claim]:
    """The claims of the paper's figures of powers, each by its figure and by the objective."""
    both: dict[Loss, str] = {
        "weighted_per": "a lower weighted PER",
        "objective": "a higher objective",
    }
    found = [
        judged(
            f"PDG has {better} than PDM {everywhere}",
            sweep.ahead("pdg", "pdm", quantity),
            sweep.in_words(("pdm", "pdg"), quantity),
        )
        for quantity, better in both.items()
    ]
    found += [
        judged(
            f"PDM and PDG have {better} than Rand and Orth {everywhere} ({reading})",
            [
                verdict
                for one in LEARNED
                for two in baselines
                for verdict in sweep.ahead(one, two, quantity)
            ],
            sweep.in_words((*baselines, *LEARNED), quantity),
        )
        for reading, baselines in READINGS.items()
        for quantity, better in both.items()
    ]
    return [*found, _constraints_claim(sweep, everywhere)]


def _constraints_claim(sweep: Sweep, everywhere: str) -> Claim:
    """Whether the learned policies keep the constraints on channels they have not seen."""
    others = ("openloop", "dual", "pdx")
    return judged(
        f"PDM and PDG meet both constraints on unseen channels {everywhere}",
        [figures.feasible for name in LEARNED for row in sweep.policies[name] for figures in row],
        "; ".join(sweep.verdicts(name) for name in (*LEARNED, *others)),
    )
