"""What a worker reaches alone on the air, which nobody exceeds in company."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from feduplink.problem import Problem


def interference_free_bound(problem: Problem, pmax_w: Tensor, direct: Tensor) -> float:
    """g(E[max_p f_i(α_i p)]): the objective if nobody disturbed anybody, without constraints.

    No policy exceeds it on channels with the direct gains α (N, L): interference only lowers every
    f_i, g does not fall in any of them, and constraints only exclude policies. Infinite for a
    measure that does not know what it is at most alone.
    """
    most = problem.objective.most_alone(direct.to("cpu", torch.float64), pmax_w)
    return math.inf if most is None else float(problem.utility.value(most.mean(0)))
