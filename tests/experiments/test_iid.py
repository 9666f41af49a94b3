from __future__ import annotations

import pytest

from feduplink.experiments import EXPERIMENTS
from feduplink.experiments.federations import Federations
from feduplink.experiments.iid import pdg_ahead
from feduplink.federated import FederatedHistory

from .made import FAILS, HOLDS, IN_PART, OPEN, federations, history, verdicts

PAPER = {
    "airquality": {"ideal": 0.083, "pdg": 0.089, "pdm": 0.16, "rand": 0.29, "orth": 0.34},
    "imdb": {"ideal": 0.14, "pdg": 0.18, "pdm": 0.27, "rand": 0.48, "orth": 0.48},
    "mnist": {"ideal": 0.135, "pdg": 0.14, "pdm": 0.2, "rand": 0.290, "orth": 0.295},
}


ROUNDS = {"airquality": 50, "imdb": 50, "mnist": 100}


def both(name: str, exact: dict[str, float], published: dict[str, float], **scale) -> Federations:
    scale = {"task": name, "rounds": ROUNDS[name], **scale}
    return federations(**scale, exact_average=exact, published_average=published)


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_own_values_hold(name: str):
    result = both(name, PAPER[name], PAPER[name])
    assert verdicts(EXPERIMENTS[name].claims(result)) == [HOLDS] * 3


@pytest.mark.parametrize("name", PAPER)
def test_others_do_not(name: str):
    last = {**dict.fromkeys(PAPER[name], 0.01), "pdg": 0.9}
    middle = {**PAPER[name], "pdg": 0.28}
    assert verdicts(EXPERIMENTS[name].claims(both(name, last, last))) == [FAILS] * 3
    assert EXPERIMENTS[name].claims(both(name, middle, PAPER[name]))[0].verdict == IN_PART


@pytest.mark.parametrize("scale", [{"task": "digits"}, {"rounds": 30}])
def test_the_papers_values_are_asked_only_of_its_data_and_rounds(scale: dict):
    result = both("mnist", PAPER["mnist"], PAPER["mnist"], **scale)
    assert verdicts(EXPERIMENTS["mnist"].claims(result)) == [HOLDS] * 2


def test_a_model_that_diverged_wins_nothing_and_loses_to_any_other():
    diverged = {**PAPER["airquality"], "pdg": float("nan")}
    others = {**PAPER["airquality"], "rand": float("inf"), "orth": float("nan")}
    result = both("airquality", diverged, others)
    assert verdicts(EXPERIMENTS["airquality"].claims(result))[:2] == [FAILS, HOLDS]


def test_what_may_be_chance_is_not_decided():
    one, other = (history({"pdg": e, "pdm": 0.2, "rand": 0.2, "orth": 0.2}) for e in (0.1, 0.2))
    policies = {name: (one.policies[name][0], other.policies[name][0]) for name in one.policies}
    mixed = FederatedHistory("digits", "error rate", {"ideal": policies["pdg"], **policies})
    result = Federations(comparisons={"exact average": mixed})
    claim = pdg_ahead("ahead", result, "exact average")
    assert claim.verdict == OPEN
    assert "pdg − pdm -0.05 ± 0.05" in claim.measured
