from __future__ import annotations

import math

import pytest

from feduplink.experiments.claims import (
    format_difference,
    format_mean_and_error,
    is_lower,
    judge_claim,
)

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
    claim = judge_claim("a beats b", iter(checks), "1 and 2")
    assert claim.verdict == verdict
    assert (claim.claim, claim.measured) == ("a beats b", "1 and 2")


@pytest.mark.parametrize(
    ("ours", "others", "expected"),
    [
        ([1.0, 2.0], [2.0, 4.0], True),
        ([2.0, 4.0], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, 2.0], None),
        ([1.0], [2.0], None),
        # Half, half and equal: t = 2, below the quantile 4.3.
        ([0.1, 0.1, 0.2], [0.2, 0.2, 0.2], None),
        ([0.1, 0.1, 0.11], [0.2, 0.2, 0.2], True),
        # All diverge, to very different values.
        ([0.1] * 5, [2e5, 3e6, 2e9, 3e7, 9e11], True),
        # An infinite value is high, but one run does not decide.
        ([math.nan] * 2, [2.0, 2.0], False),
        ([1.0, 1.0], [math.inf] * 2, True),
        ([1.0, 1.0, 1.0], [1.0, 1.0, math.inf], None),
        ([math.inf, 1.0], [math.inf, 1.0], None),
        ([math.inf] * 2, [math.nan] * 2, None),
    ],
)
def test_a_significant_difference_has_a_sign(ours, others, expected):
    assert is_lower(ours, others) is expected


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("ours", "others", "words"),
    [
        ([1.0, 4.0], [2.0, 3.0], "+0 ± 1"),
        ([0.1], [0.3], "-0.2"),
        ([1.0, 2.0], [math.inf, 1.0], "–"),
        # The difference of two infinite values is undefined.
        ([math.inf, 2.0], [math.inf, 1.0], "–"),
    ],
)
def test_format_of_differences(ours, others, words):
    assert format_difference(ours, others) == words


def test_a_mean_has_its_standard_error():
    assert format_mean_and_error([0.1, 0.2, 0.3], 3) == "0.200 ± 0.058"  # 0.1 / √3
    assert format_mean_and_error([0.25], 1) == "0.2"
