"""Powers against the strength of interference, trained and judged at each strength."""

from __future__ import annotations

from feduplink.experiments.bench import Bench
from feduplink.experiments.claims import Claim, judged
from feduplink.experiments.settings import judged_settings
from feduplink.experiments.sweep import Sweep
from feduplink.scenario import Scenario

TITLE = "Interference"
DATA = None
CAPTION = (
    "Interference scaled by 1, 2, 4 and 8; policies learned and judged at each strength. Left: the "
    "paper's figure. It counts transmitting workers only, so it is shown with what a policy "
    "achieves in all and with how many it lets transmit. Hollow marks: on average over the seeds a "
    "constraint is missed by more than 1 %; the test channels estimate a worker's mean to within 1 "
    "to 8 %, the worse the stronger the interference. Bars: from the worst to the best seed."
)
RESULT = Sweep

_SCENARIOS = {
    1.0: "default",
    2.0: "interference-x2",
    4.0: "interference-x4",
    8.0: "interference-x8",
}


def run(bench: Bench) -> Sweep:
    """Judge all policies at each strength."""
    scenarios = {factor: Scenario.from_yaml(name) for factor, name in _SCENARIOS.items()}
    settings = judged_settings(bench, scenarios)
    return Sweep.of("interference", list(scenarios), settings, logarithmic=True)


def claims(sweep: Sweep) -> list[Claim]:
    """PDG under PDM, and both under Rand and Orth, at every strength."""
    return power_claims(sweep, "at every interference strength")


def power_claims(sweep: Sweep, everywhere: str) -> list[Claim]:
    """The two claims of the paper's figures of powers, each by its figure and by the objective."""
    baselines = ("rand", "orth")
    learned = ("pdm", "pdg")
    shown = ("rand", "orth", "pdm", "pdg")
    return [
        judged(
            f"PDG transmits with a lower weighted PER than PDM {everywhere}",
            sweep.below("pdg", "pdm", "weighted_per"),
            sweep.told(("pdm", "pdg"), "weighted_per"),
        ),
        judged(
            f"PDG has a higher objective than PDM {everywhere}",
            sweep.below("pdm", "pdg", "objective"),
            sweep.told(("pdm", "pdg"), "objective"),
        ),
        judged(
            f"PDM and PDG have a lower weighted PER than Rand and Orth {everywhere}",
            [
                b
                for one in learned
                for two in baselines
                for b in sweep.below(one, two, "weighted_per")
            ],
            sweep.told(shown, "weighted_per") + " (rand and orth silence most workers)",
        ),
        judged(
            f"PDM and PDG have a higher objective than Rand and Orth {everywhere}",
            [b for one in learned for two in baselines for b in sweep.below(two, one, "objective")],
            sweep.told(shown, "objective"),
        ),
    ]
