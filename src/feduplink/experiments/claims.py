"""What the paper says, what was measured, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterable

from feduplink.metrics import Claim, Verdict

__all__ = ["Claim", "judged"]


def judged(claim: str, checks: Iterable[bool], measured: str) -> Claim:
    """A claim that holds if all checks do, and in part if some do; without any it does not.

    >>> judged("a wins everywhere", [True, False], "a 1, 2; b 0, 3").verdict
    'holds in part'
    """
    outcomes = list(checks)
    verdict: Verdict = "does not hold"
    if outcomes and all(outcomes):
        verdict = "holds"
    elif any(outcomes):
        verdict = "holds in part"
    return Claim(claim=claim, measured=measured, verdict=verdict)
