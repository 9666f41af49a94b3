from __future__ import annotations

from feduplink.experiments import time_energy
from feduplink.experiments.federations import Federations

from .made import FAILS, HOLDS, IN_PART, history, verdicts

NAMES = ("ideal", "max", "rand", "orth", "pdm", "pdg", "openloop", "dual", "pdx")
COSTS = {name: (100.0, 10.0) for name in NAMES if name != "ideal"}


def _verdicts(**costs: tuple[float, float]) -> list[str]:
    """Seconds and joules of a round; the others need 100 s and 10 J."""
    result = history(dict.fromkeys(NAMES, 0.1), {**COSTS, **costs})
    return verdicts(time_energy.claims(Federations(comparisons={"exact average": result})))


def test_claims():
    assert _verdicts(pdx=(10.0, 1.0)) == [HOLDS, HOLDS]
    assert _verdicts(pdx=(10.0, 5.0), openloop=(5.0, 9.0)) == [IN_PART, IN_PART]
    assert _verdicts(pdx=(90.0, 9.0), openloop=(50.0, 5.0)) == [FAILS, FAILS]
