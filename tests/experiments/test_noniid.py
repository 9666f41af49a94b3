from __future__ import annotations

from feduplink.experiments import noniid
from feduplink.experiments.federations import Federations

from .made import FAILS, HOLDS, IN_PART, history, verdicts


def _errors(ideal: float, pdg: float, pdm: float, rand: float, orth: float) -> dict[str, float]:
    """With both readings of the baselines alike."""
    baselines = {"rand": rand, "rand:unselected": rand, "orth": orth, "orth:unselected": orth}
    return {"ideal": ideal, "pdg": pdg, "pdm": pdm, **baselines}


GAUSSIAN = _errors(0.143, 0.161, 0.195, 0.216, 0.252)
DIRICHLET = _errors(0.153, 0.184, 0.281, 0.304, 0.317)
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
    claims = noniid.claims(Federations(comparisons=comparisons))
    assert len(claims) == 2 * (2 * 2 * 3 + 1)
    return verdicts(
        [claim for claim in claims if "lower error" in claim.claim or "paper" in claim.claim]
    )


def test_claims():
    """For each kind: the order under either average in both readings, then the paper's values."""
    assert _verdicts(GAUSSIAN, GAUSSIAN, DIRICHLET, DIRICHLET) == [HOLDS] * 10
    assert _verdicts(LAST, GAUSSIAN, DIRICHLET, LAST) == [
        *(FAILS, FAILS, HOLDS, HOLDS, HOLDS),
        *(HOLDS, HOLDS, FAILS, FAILS, FAILS),
    ]
    near = {**GAUSSIAN, "pdg": 0.2}
    assert _verdicts(near, near, DIRICHLET, DIRICHLET)[:5] == [IN_PART] * 4 + [HOLDS]
