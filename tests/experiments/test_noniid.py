from __future__ import annotations

from feduplink.experiments import noniid
from feduplink.experiments.federations import Federations

from .made import FAILS, HOLDS, IN_PART, history, verdicts

GAUSSIAN = {"ideal": 0.143, "pdg": 0.161, "pdm": 0.195, "rand": 0.216, "orth": 0.252}
DIRICHLET = {"ideal": 0.153, "pdg": 0.184, "pdm": 0.281, "rand": 0.304, "orth": 0.317}
LAST = {**dict.fromkeys(GAUSSIAN, 0.01), "pdg": 0.9}


def _verdicts(*errors: dict[str, float]) -> list[str]:
    labels = [
        f"{kind}, {average} average"
        for kind in ("gaussian", "dirichlet")
        for average in ("exact", "published")
    ]
    comparisons = {
        label: history(e, task="mnist", rounds=100) for label, e in zip(labels, errors, strict=True)
    }
    return verdicts(noniid.claims(Federations(comparisons=comparisons)))


def test_claims():
    """For each kind: the order under either average, then the values under the published one."""
    assert _verdicts(GAUSSIAN, GAUSSIAN, DIRICHLET, DIRICHLET) == [HOLDS] * 6
    assert _verdicts(LAST, GAUSSIAN, DIRICHLET, LAST) == [FAILS, HOLDS, HOLDS, HOLDS, FAILS, FAILS]
    near = {**GAUSSIAN, "pdg": 0.2}
    assert _verdicts(near, near, DIRICHLET, DIRICHLET)[:3] == [IN_PART, IN_PART, HOLDS]
