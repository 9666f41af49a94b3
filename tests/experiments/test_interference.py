from __future__ import annotations

import pytest

from feduplink.experiments import interference
from feduplink.experiments.cell_sweep import Sweep

from .made import FAILS, HOLDS, IN_PART, OPEN, Pairs, figures, verdicts
from .made import sweep as made

BASELINES: dict[str, Pairs] = {
    "rand": [(0.3, 0.5), (0.2, 0.6)],
    "orth": [(0.4, 0.4), (0.3, 0.5)],
    "rand_unselected": [(0.3, 0.5), (0.2, 0.6)],
    "orth_unselected": [(0.4, 0.4), (0.3, 0.5)],
}
LEARNED: dict[str, Pairs] = {
    "pdm": [(0.5, 0.3), (0.4, 0.4)],
    "pdg": [(0.6, 0.2), (0.5, 0.3)],
}
OTHERS: dict[str, Pairs] = dict.fromkeys(("openloop", "dual", "pdx"), [(0.9, 0.1)] * 2)


def sweep(**changed: Pairs) -> Sweep:
    return made(**{**BASELINES, **LEARNED, **OTHERS, **changed})


def test_claims_that_hold():
    """Two of PDG and PDM, two for each reading of the baselines, one on the constraints."""
    assert verdicts(interference.claims(sweep())) == [HOLDS] * 7


def test_claims_that_do_not():
    """Few errors of few transmissions: the figure is the worse one, the objective the better."""
    result = sweep(
        rand=[(0.3, 0.1), (0.2, 0.1)],
        orth=[(0.4, 0.2), (0.3, 0.2)],
        pdm=[(0.6, 0.3), (0.4, 0.3)],
        pdg=[(0.5, 0.4), (0.5, 0.4)],
    )
    assert verdicts(interference.claims(result))[:4] == [FAILS, IN_PART, FAILS, HOLDS]


@pytest.mark.parametrize(("reading", "places"), [("", (2, 3)), ("_unselected", (4, 5))])
def test_each_reading_of_the_baselines_is_judged_by_itself(reading: str, places: tuple[int, int]):
    better: Pairs = [(0.95, 0.01)] * 2
    claims = interference.claims(sweep(**{f"rand{reading}": better, f"orth{reading}": better}))
    assert [n for n, claim in enumerate(claims) if claim.verdict == FAILS] == list(places)
    told = f"rand{reading.replace('_', ':')} 1.0 ± 0.0 %, 1.0 ± 0.0 %"
    assert claims[places[0]].measured.startswith(told)


@pytest.mark.parametrize(
    ("pdm", "pdg", "verdict"),
    [
        (True, None, IN_PART),
        (True, False, IN_PART),
        (False, False, FAILS),
        (False, None, FAILS),
        (None, None, OPEN),
    ],
)
def test_the_learned_policies_are_asked_for_their_constraints(
    pdm: bool | None, pdg: bool | None, verdict: str
):
    result = sweep()
    for name, feasible in (("pdm", pdm), ("pdg", pdg)):
        result.policies[name] = [[figures(0.5, feasible=feasible)] * 2] * 2
    claim = interference.claims(result)[-1]
    assert claim.verdict == verdict
    assert claim.measured.endswith("; pdx feasible 4, inconclusive 0, infeasible 0 of 4")


def test_what_was_measured_is_told():
    result = sweep(pdm=[(0.5, None), (0.4, 0.4)])
    per, objective, *_ = interference.claims(result)
    assert per.measured == "pdm –, 40.0 ± 0.0 %; pdg 20.0 ± 0.0 %, 30.0 ± 0.0 %"
    assert (
        objective.measured == "pdm 0.500 ± 0.000, 0.400 ± 0.000; pdg 0.600 ± 0.000, 0.500 ± 0.000"
    )
