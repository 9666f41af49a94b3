from __future__ import annotations

import math

import pytest

from feduplink.experiments.claims import difference, judged, lower, mean_and_error

from .made import FAILS, HOLDS, IN_PART, OPEN


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ([True, True], HOLDS),
        ([True, False], IN_PART),
        ([False, False], FAILS),
        ([True], HOLDS),
        ([False], FAILS),
        ([], FAILS),
        ([None, None], OPEN),
        ([None, True], IN_PART),
        ([None, False], FAILS),
    ],
)
def test_verdicts(checks: list[bool | None], verdict: str):
    claim = judged("a beats b", iter(checks), "1 and 2")
    assert claim.verdict == verdict
    assert (claim.claim, claim.measured) == ("a beats b", "1 and 2")


@pytest.mark.parametrize(
    ("ours", "others", "expected"),
    [
        ([1.0, 2.0], [2.0, 4.0], True),
        ([2.0, 4.0], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, 2.0], None),
        ([1.0], [2.0], None),
        # Half, half and the same: t = 2, and 4.3 is asked for.
        ([0.1, 0.1, 0.2], [0.2, 0.2, 0.2], None),
        ([0.1, 0.1, 0.11], [0.2, 0.2, 0.2], True),
        # All go astray, by very different amounts.
        ([0.1] * 5, [2e5, 3e6, 2e9, 3e7, 9e11], True),
        # What never gets there is high, but one run does not decide.
        ([math.nan] * 2, [2.0, 2.0], False),
        ([1.0, 1.0], [math.inf] * 2, True),
        ([1.0, 1.0, 1.0], [1.0, 1.0, math.inf], None),
        ([math.inf, 1.0], [math.inf, 1.0], None),
        ([math.inf] * 2, [math.nan] * 2, None),
    ],
)
def test_what_is_lower_beyond_chance(ours, others, expected):
    assert lower(ours, others) is expected


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("ours", "others", "words"),
    [
        ([1.0, 4.0], [2.0, 3.0], "+0 ± 1"),
        ([0.1], [0.3], "-0.2"),
        ([1.0, 2.0], [math.inf, 1.0], "–"),
        # Neither gets there: there is no difference to speak of.
        ([math.inf, 2.0], [math.inf, 1.0], "–"),
    ],
)
def test_differences_in_words(ours, others, words):
    assert difference(ours, others) == words


def test_a_mean_has_its_standard_error():
    assert mean_and_error([0.1, 0.2, 0.3], 3) == "0.200 ± 0.058"  # 0.1 / √3
    assert mean_and_error([0.25], 1) == "0.2"
