"""Claims: statements of the paper, measured values and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats

from feduplink.storage.run_directory import Claim, Verdict

_CONFIDENCE = 0.95
#: Lower limit of errors in a comparison; smaller errors count as equal.
_MIN_ERROR = 1e-9


def judge_claim(claim: str, checks: Iterable[bool | None], measured: str) -> Claim:
    """Derive the verdict of a claim from its checks.

    A claim holds if all checks are True, holds in part if some are, is undecided if all are None,
    and otherwise does not hold.

    Args:
        claim: the statement.
        checks: outcomes of the checks; None: undecided.
        measured: measured values, in words.

    Returns:
        The claim with its verdict.

    >>> judge_claim("a wins everywhere", [True, False, None], "a 1, 2, 4; b 0, 3, 4").verdict
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


def leave_undecided(claim: Claim, data: str) -> Claim:
    """Change a verdict to undecided, because the data are not those of the paper.

    Args:
        claim: the claim.
        data: description of the data used.

    Returns:
        The undecided claim.

    >>> leave_undecided(judge_claim("a wins", [True], "a 1, b 0"), "digits").measured
    'on digits: a 1, b 0'
    """
    measured = f"on {data}: {claim.measured}"
    return claim.model_copy(update={"measured": measured, "verdict": "undecided"})


def is_lower(ours: Sequence[float], others: Sequence[float]) -> bool | None:
    """Whether errors are significantly lower than others, paired by run.

    The test uses the mean log-ratio of the pairs, so that one diverged run does not dominate. An
    infinite or undefined value counts as twice the largest finite value.

    Args:
        ours: errors by run.
        others: errors of the same runs.

    Returns:
        True or False if the 95 % confidence interval of the mean log-ratio (Student's t) excludes
        zero; None if it does not, or if there is a single pair.

    >>> is_lower([0.1, 0.2, 0.3], [0.2, 0.4, 0.5]), is_lower([0.1, 0.3], [0.2, 0.2])
    (True, None)
    >>> never = float("inf")
    >>> is_lower([20, 21, 22], [never] * 3), is_lower([20, 21, 22], [19, 22, never])
    (True, None)
    """
    if len(ours) == 1:
        return None
    values = np.array([ours, others])
    finite = np.isfinite(values)
    high = 2 * values[finite].max(initial=_MIN_ERROR)
    logs = np.log(np.maximum(np.where(finite, values, high), _MIN_ERROR))
    ratios = logs[0] - logs[1]
    half_width = stats.sem(ratios) * stats.t.ppf((1 + _CONFIDENCE) / 2, len(ratios) - 1)
    mean = float(ratios.mean())
    return None if abs(mean) <= half_width else mean < 0


def format_difference(ours: Sequence[float], others: Sequence[float]) -> str:
    """Format the mean of ``ours`` minus ``others``, paired by run, and its standard error.

    A dash stands for a difference with an infinite or undefined value.

    >>> format_difference([1.0, 4.0], [2.0, 3.0])
    '+0 ± 1'
    """
    if not np.isfinite([ours, others]).all():
        return "–"
    differences = np.subtract(ours, others)
    if len(differences) == 1:
        return f"{differences.mean():+.2g}"
    return f"{differences.mean():+.2g} ± {stats.sem(differences):.1g}"


def format_mean(values: Sequence[float]) -> str:
    """Format the mean, or the number of runs whose value is infinite or undefined.

    >>> format_mean([19.0, 22.0]), format_mean([19.0, 22.0, float("inf")])
    ('20.5', 'infinite in 1 of 3 runs')
    """
    infinite = int((~np.isfinite(values)).sum())
    return f"infinite in {infinite} of {len(values)} runs" if infinite else f"{np.mean(values):.3g}"


def format_mean_and_error(values: Sequence[float], digits: int) -> str:
    """Format the mean and its standard error; the mean alone for a single value.

    >>> format_mean_and_error([0.939, 0.941], 3), format_mean_and_error([5.0], 1)
    ('0.940 ± 0.001', '5.0')
    """
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {stats.sem(values):.{digits}f}"
