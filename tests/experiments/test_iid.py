from __future__ import annotations

import pytest

from feduplink.experiments import EXPERIMENTS

from .made import FAILS, HOLDS, IN_PART, federations, verdicts

PAPER = {
    "airquality": {"ideal": 0.083, "pdg": 0.089, "pdm": 0.16, "rand": 0.29, "orth": 0.34},
    "imdb": {"ideal": 0.14, "pdg": 0.18, "pdm": 0.27, "rand": 0.48, "orth": 0.48},
    "mnist": {"ideal": 0.135, "pdg": 0.14, "pdm": 0.2, "rand": 0.290, "orth": 0.295},
}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_own_values_hold(name: str):
    result = federations(exact_average=PAPER[name], published_average=PAPER[name])
    assert verdicts(EXPERIMENTS[name].claims(result)) == [HOLDS] * 3


@pytest.mark.parametrize("name", PAPER)
def test_others_do_not(name: str):
    last = {**dict.fromkeys(PAPER[name], 0.01), "pdg": 0.9}
    middle = {**PAPER[name], "pdg": 0.28}
    result = federations(exact_average=last, published_average=last)
    assert verdicts(EXPERIMENTS[name].claims(result)) == [FAILS] * 3
    result = federations(exact_average=middle, published_average=PAPER[name])
    assert EXPERIMENTS[name].claims(result)[0].verdict == IN_PART


def test_an_average_that_is_missing_is_not_judged():
    (claim,) = EXPERIMENTS["imdb"].claims(federations(exact_average=PAPER["imdb"]))
    assert "exact average" in claim.claim


def test_a_model_that_diverged_wins_nothing():
    diverged = {**PAPER["airquality"], "pdg": float("nan")}
    result = federations(exact_average=diverged)
    assert verdicts(EXPERIMENTS["airquality"].claims(result)) == [FAILS]
