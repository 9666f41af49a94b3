"""What the paper says, what was measured, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel

Verdict = Literal["holds", "holds in part", "does not hold"]


class Claim(BaseModel):
    """One statement, the figures it is judged by, and the verdict."""

    claim: str
    measured: str
    verdict: Verdict


def judged(claim: str, checks: Iterable[bool], measured: str) -> Claim:
    """A claim that holds if all checks do, and in part if some do.

    >>> judged("a wins everywhere", [True, False], "a 1, 2; b 0, 3").verdict
    'holds in part'
    """
    outcomes = list(checks)
    verdict: Verdict = "does not hold"
    if all(outcomes):
        verdict = "holds"
    elif any(outcomes):
        verdict = "holds in part"
    return Claim(claim=claim, measured=measured, verdict=verdict)
