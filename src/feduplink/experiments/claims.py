"""What the paper says, what was measured, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats

from feduplink.storage.run_directory import Claim, Verdict

__all__ = [
    "Claim",
    "difference",
    "judged",
    "lower",
    "mean_and_error",
    "mean_in_words",
    "on_other_data",
]

_CONFIDENCE = 0.95
#: Errors below this are alike.
_SMALLEST = 1e-9


def judged(claim: str, checks: Iterable[bool | None], measured: str) -> Claim:
    """A claim that holds if all checks do, and in part if some do.

    A check that is None could not be decided; a claim is undecided if none was.

    >>> judged("a wins everywhere", [True, False, None], "a 1, 2, 4; b 0, 3, 4").verdict
    'holds in part'
    """
    outcomes = list(checks)
    verdict: Verdict = "does not hold"
    if outcomes and all(outcomes):
        verdict = "holds"
    elif any(outcomes):
        verdict = "holds in part"
    elif outcomes and all(outcome is None for outcome in outcomes):
        verdict = "undecided"
    return Claim(claim=claim, measured=measured, verdict=verdict)


def on_other_data(claim: Claim, data: str) -> Claim:
    """The claim, left undecided: what was measured on other data is no verdict on it.

    >>> on_other_data(judged("a wins", [True], "a 1, b 0"), "digits").measured
    'on digits: a 1, b 0'
    """
    measured = f"on {data}: {claim.measured}"
    return claim.model_copy(update={"measured": measured, "verdict": "undecided"})


def lower(ours: Sequence[float], others: Sequence[float]) -> bool | None:
    """Whether errors are lower than others, run by run, with the same random numbers in a run.

    None if chance may be behind it: if the 95 % confidence interval of the mean log-ratio
    (Student's t) holds zero, or there is a single pair. Ratios, because one model that diverges
    would hide all other differences. What diverged or never got there is infinite or undefined; it
    counts as twice the largest finite value, so that it is high, and one run does not decide.

    >>> lower([0.1, 0.2, 0.3], [0.2, 0.4, 0.5]), lower([0.1, 0.3], [0.2, 0.2])
    (True, None)
    >>> never = float("inf")
    >>> lower([20, 21, 22], [never] * 3), lower([20, 21, 22], [19, 22, never])
    (True, None)
    """
    if len(ours) == 1:
        return None
    values = np.array([ours, others])
    finite = np.isfinite(values)
    high = 2 * values[finite].max(initial=_SMALLEST)
    logs = np.log(np.maximum(np.where(finite, values, high), _SMALLEST))
    ratios = logs[0] - logs[1]
    reach = stats.sem(ratios) * stats.t.ppf((1 + _CONFIDENCE) / 2, len(ratios) - 1)
    mean = float(ratios.mean())
    return None if abs(mean) <= reach else mean < 0


def difference(ours: Sequence[float], others: Sequence[float]) -> str:
    """The mean of ``ours`` minus ``others``, run by run, and its standard error, in words.

    A dash where a run of either is infinite or undefined.

    >>> difference([1.0, 4.0], [2.0, 3.0])
    '+0 ± 1'
    """
    if not np.isfinite([ours, others]).all():
        return "–"
    differences = np.subtract(ours, others)
    if len(differences) == 1:
        return f"{differences.mean():+.2g}"
    return f"{differences.mean():+.2g} ± {stats.sem(differences):.1g}"


def mean_in_words(values: Sequence[float]) -> str:
    """The mean; or in how many runs there is none, because they diverged or never got there.

    >>> mean_in_words([19.0, 22.0]), mean_in_words([19.0, 22.0, float("inf")])
    ('20.5', 'infinite in 1 of 3 runs')
    """
    infinite = int((~np.isfinite(values)).sum())
    return f"infinite in {infinite} of {len(values)} runs" if infinite else f"{np.mean(values):.3g}"


def mean_and_error(values: Sequence[float], digits: int) -> str:
    """The mean and its standard error; without the latter for a single value.

    >>> mean_and_error([0.939, 0.941], 3), mean_and_error([5.0], 1)
    ('0.940 ± 0.001', '5.0')
    """
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {stats.sem(values):.{digits}f}"
