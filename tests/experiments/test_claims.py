from __future__ import annotations

import pytest

from feduplink.experiments.claims import judged

from .made import FAILS, HOLDS, IN_PART


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ([True, True], HOLDS),
        ([True, False], IN_PART),
        ([False, False], FAILS),
        ([True], HOLDS),
        ([False], FAILS),
        ([], FAILS),
    ],
)
def test_verdicts(checks: list[bool], verdict: str):
    claim = judged("a beats b", iter(checks), "1 and 2")
    assert claim.verdict == verdict
    assert (claim.claim, claim.measured) == ("a beats b", "1 and 2")
