from __future__ import annotations

import math

import pytest

from feduplink.experiments.claims import judged, lower

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
        ([math.nan, 1.0], [2.0, 2.0], False),
        ([1.0, 1.0], [2.0, math.inf], True),
        ([math.inf, 1.0], [math.inf, 1.0], False),
    ],
)
def test_what_is_lower_beyond_chance(ours, others, expected):
    assert lower(ours, others) is expected
