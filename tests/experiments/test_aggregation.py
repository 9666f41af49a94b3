from __future__ import annotations

import pytest

from feduplink.experiments import aggregation

from .made import FAILS, HOLDS, federations

PAPERS = {
    "ideal": 0.10,
    "rand": 0.11,
    "rand:unselected": 0.11,
    "orth": 0.12,
    "orth:unselected": 0.12,
    "pdm": 0.11,
    "pdg": 0.10,
}


@pytest.mark.parametrize("name", ["orth", "orth:unselected"])
@pytest.mark.parametrize(("error", "verdict"), [(0.12, HOLDS), (0.14, FAILS)])
def test_the_spread_of_the_papers_policies_decides(name: str, error: float, verdict: str):
    exact = {**PAPERS, name: error, "openloop": 0.9}
    result = federations(exact_average=exact, published_average={**PAPERS, "rand": 0.5})
    (claim,) = aggregation.claims(result)
    assert claim.verdict == verdict
    assert "openloop 0.9" in claim.measured
    assert "published average: ideal 0.1, rand 0.5" in claim.measured
