"""What tells one problem from another, so that a run is not resumed under a different one.

Measures and utilities compute, and cannot be compared. They are known by their name and by
a checksum of their values on a fixed probe; two functions of one name that differ only off the
probe are taken for the same.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor

from feduplink.link import Measure
from feduplink.object_identity import qualified_name
from feduplink.problem import Problem
from feduplink.utility import Utility

#: Values are compared to so many digits: the last ones differ from processor to processor.
_DIGITS = 8


def problem_identity(problem: Problem, workers: int) -> dict[str, Any]:
    """Objective, utility and constraints of a problem of L ``workers``, as JSON."""
    return {
        "objective": _measure_identity(problem.objective, workers),
        "utility": _utility_identity(problem.utility, workers),
        "constraints": [
            {
                "name": constraint.name,
                "threshold": constraint.threshold.tolist(),
                "at most": constraint.at_most,
                "active": constraint.active.tolist(),
                "measure": _measure_identity(constraint.measure, workers),
            }
            for constraint in problem.constraints
        ],
    }


def _measure_identity(measure: Measure, workers: int) -> dict[str, str]:
    """Probe: SINRs from −40 to 60 dB with powers from 10 µW to 10 W, other ones for each worker."""
    points = _spread(64, workers)
    with torch.no_grad():
        values = measure.value(10 ** (-4 + 10 * points), 10 ** (-5 + 6 * points.flip(0)))
    return {"name": qualified_name(measure), "values": _digest(values)}


def _utility_identity(utility: Utility, workers: int) -> dict[str, str]:
    """Probe: expectations between 0 and 1; the gradient tells the weights."""
    points = _spread(16, workers)
    with torch.no_grad():
        values = [v for y in points for v in (utility.value(y), utility.gradient(y))]
    return {"name": qualified_name(utility), "values": _digest(*values)}


def _spread(count: int, workers: int) -> Tensor:
    """Numbers in (0, 1) without a pattern, (count, L) float64: multiples of the golden ratio."""
    index = torch.arange(1, count * workers + 1, dtype=torch.float64)
    return (index * 0.6180339887498949).frac().view(count, workers)


def _digest(*values: Tensor) -> str:
    numbers = torch.cat([value.to(torch.float64).flatten() for value in values]).tolist()
    text = ",".join(f"{number:.{_DIGITS}g}" for number in numbers)
    return hashlib.sha256(text.encode()).hexdigest()
