"""Whether a policy meets its constraints, told from a sample of channels.

N channels tell a worker's mean E[c | p > 0] only up to an error: 1 to 2 % at the default setting
and 1000 channels, 5 to 8 % where interference is strong. So a verdict has three values: *met*,
*missed*, and *cannot be told* on so many channels. It rests on intervals for the shortfalls of
all workers and constraints that hold together with 95 % confidence.

The channels count as independent draws. Where they are correlated (workers that stay in place,
slow fading) they say less than their number, and the intervals are too short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.problem import Problem

#: A constraint missed by no more than this share of its threshold counts as met.
TOLERANCE = 0.01
#: With which all intervals hold together.
CONFIDENCE = 0.95
#: Whether constraints are met, in words.
VERDICTS = {True: "met", False: "missed", None: "open"}
#: Below this skewness over √n an interval is symmetric to the last digits.
_STRAIGHT = 1e-6


@dataclass(frozen=True)
class Shortfalls:
    """Relative shortfalls (c0 − E[c]) / |c0| of K constraints and L workers, (K, L) each.

    Negative where there is something to spare; NaN where a worker never transmits or has no
    threshold.

    Attributes:
        estimate: on the channels at hand.
        low: where its interval begins.
        high: where it ends; both are infinite for a worker that transmits only once.
    """

    estimate: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def from_problem(cls, problem: Problem, sinr: Tensor, power: Tensor) -> Shortfalls:
        """Of all constraints of a problem, on channels with these SINRs and powers, (N, L)."""
        if not problem.constraints:
            return cls(*torch.zeros(3, 0, power.shape[-1], dtype=torch.float64))
        return cls.from_samples(
            problem.constraint_values(sinr, power),
            torch.stack([constraint.counted(power) for constraint in problem.constraints]),
            problem,
        )

    @classmethod
    def from_samples(cls, values: Tensor, counted: Tensor, problem: Problem) -> Shortfalls:
        """From the constraints' values and which of them count, (K, N, L) each.

        Each interval is :func:`mean_interval` at a confidence of 1 − 0.05 / M, so that all M of
        them hold together with 0.95 (Bonferroni).
        """
        constrained = problem.active & counted.any(-2)
        statements = max(1, int(constrained.sum()))
        mean, low, high = mean_interval(values, counted, 1 - (1 - CONFIDENCE) / statements)
        aim = problem.thresholds
        scale = torch.where(constrained, problem.scales, math.nan)
        return cls((aim - mean) / scale, (aim - high) / scale, (aim - low) / scale)

    @property
    def worst(self) -> tuple[float, float]:
        """The largest shortfall and half the width of its interval; zeros without constraints."""
        estimate = self.estimate.nan_to_num(nan=-math.inf).flatten()
        if estimate.numel() == 0 or not bool(estimate.isfinite().any()):
            return 0.0, 0.0
        place = int(estimate.argmax())
        width = (self.high - self.low).flatten()[place]
        return float(estimate[place]), float(width / 2)

    @property
    def met(self) -> bool | None:
        """True: met by all workers; False: missed by one; None: cannot be told.

        Met if every interval ends, missed if one begins, beyond the tolerance of 1 %.
        """
        known = ~self.estimate.isnan()
        if bool((self.low[known] > TOLERANCE).any()):
            return False
        return True if bool((self.high[known] <= TOLERANCE).all()) else None


def mean_interval(
    values: Tensor, included: Tensor, confidence: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The mean over the included samples of (..., N, L), and where its interval begins and ends.

    Rates under strong interference are skewed: many near zero, a few large. Student's interval
    then ends too early. Hall's transformation (1992) takes the skewness γ of the n samples into
    account: the ends are m − s/√n · g⁻¹(±t), t the quantile of Student with n − 1 degrees and

        g⁻¹(x) = (3/c) ((1 + c (x − c/6))^(1/3) − 1),  c = γ/√n,

    which is x itself for γ = 0. NaN without a sample, infinite ends with a single one.
    """
    # Here: it takes a fifth of a second to import, and only a judgement needs it.
    from scipy.special import stdtrit

    count = included.sum(-2).to(values.dtype)
    mean = torch.where(included, values, 0.0).sum(-2) / count
    centred = torch.where(included, values - mean[..., None, :], 0.0)
    variance = centred.square().sum(-2) / (count - 1)
    standard_error = (variance / count).sqrt()
    skewness = (centred**3).sum(-2) / count / variance**1.5
    c = torch.where(variance > 0, skewness, 0.0) / count.sqrt()
    degrees = (count - 1).clamp_min(1).numpy()
    t = torch.from_numpy(stdtrit(degrees, (1 + confidence) / 2)).to(values)

    def inverse(x: Tensor) -> Tensor:
        bent = torch.where(c.abs() > _STRAIGHT, c, 1.0)
        base = 1 + bent * (x - bent / 6)
        root = base.sign() * base.abs() ** (1 / 3)
        return torch.where(c.abs() > _STRAIGHT, 3 / bent * (root - 1), x)

    low, high = mean - standard_error * inverse(t), mean - standard_error * inverse(-t)
    single = count == 1
    return (
        mean,
        torch.where(single, -math.inf, low),
        torch.where(single, math.inf, high),
    )
