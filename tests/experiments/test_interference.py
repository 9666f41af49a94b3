from __future__ import annotations

from feduplink.experiments import interference

from .made import FAILS, HOLDS, IN_PART, sweep, verdicts

BASELINES = {"rand": [(0.3, 0.5), (0.2, 0.6)], "orth": [(0.4, 0.4), (0.3, 0.5)]}


def test_claims_that_hold():
    result = sweep(**BASELINES, pdm=[(0.5, 0.3), (0.4, 0.4)], pdg=[(0.6, 0.2), (0.5, 0.3)])
    assert verdicts(interference.claims(result)) == [HOLDS] * 4


def test_claims_that_do_not():
    """Few errors of few transmissions: the figure is the worse one, the objective the better."""
    result = sweep(
        rand=[(0.3, 0.1), (0.2, 0.1)],
        orth=[(0.4, 0.2), (0.3, 0.2)],
        pdm=[(0.6, 0.3), (0.4, 0.3)],
        pdg=[(0.5, 0.4), (0.5, 0.4)],
    )
    assert verdicts(interference.claims(result)) == [FAILS, IN_PART, FAILS, HOLDS]


def test_what_was_measured_is_told():
    result = sweep(**BASELINES, pdm=[(0.5, None), (0.4, 0.4)], pdg=[(0.6, 0.2), (0.5, 0.3)])
    per, objective, *_ = interference.claims(result)
    assert per.measured == "pdm –, 40.0 %; pdg 20.0 %, 30.0 %"
    assert objective.measured == "pdm 0.500, 0.400; pdg 0.600, 0.500"
