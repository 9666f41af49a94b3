from __future__ import annotations

import pytest

from feduplink.experiments import pmax

from .made import FAILS, HOLDS, IN_PART, sweep, verdicts

OTHERS = ("rand", "orth", "rand_unselected", "orth_unselected", "openloop", "dual", "pdx")


@pytest.mark.parametrize(
    ("pdm", "pdg", "optimum", "verdict"),
    [
        (0.50, 0.51, 0.515, HOLDS),
        (0.50, 0.51, 0.60, IN_PART),
        (0.45, 0.51, 0.515, IN_PART),
        (0.40, 0.50, 0.60, FAILS),
    ],
)
def test_the_learned_policies_are_alike_and_optimal_at_the_smallest_power(
    pdm: float, pdg: float, optimum: float, verdict: str
):
    result = sweep(
        **{name: [(0.1, 0.5)] * 2 for name in OTHERS},
        pdm=[(pdm, 0.2), (0.1, 0.2)],
        pdg=[(pdg, 0.1), (0.9, 0.1)],
        optimum=[(optimum, 0.1), (0.9, 0.1)],
    )
    *_, last = claims = pmax.claims(result)
    assert last.verdict == verdict
    assert verdicts(claims)[:2] == [HOLDS, HOLDS]
    assert len(claims) == 8  # and the others of interference
    assert "silences 50%" in last.measured
