"""What a worker reaches alone on the air, which nobody exceeds in company."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import lambertw
from torch import Tensor

from feduplink.problem import Problem
from feduplink.scenario import Scenario

#: A gain of 0 counts as this: any power is as efficient as any other.
_FAINT = 1e-200
#: Under this r the series is exact to 12 digits of the efficiency.
_NEAR_BRANCH_POINT = 1e-6


def most_efficient_power(
    gain: Tensor, static_power_w: Tensor, amplifier_inefficiency: float
) -> Tensor:
    """The power in W, without limit, of the largest EE = ln(1 + α p) / (μ p + P_c); (..., L).

    At the peak u = 1 + α p solves u (ln u − 1) = α P_c / μ − 1, so that ln u = 1 + W(x) with
    Lambert's W and x = (α P_c / μ − 1) / e ≥ −1/e. From there the efficiency falls to both sides.
    Near −1/e, where W loses its digits, ln u = √(2 r) − 2 r / 3 + … for r = α P_c / μ.
    """
    gain = gain.to(torch.float64).clamp_min(_FAINT)
    r = gain * static_power_w.to(gain) / amplifier_inefficiency
    x = ((r - 1) / math.e).cpu().numpy()
    w = torch.as_tensor(np.real(lambertw(x))).to(gain)  # type: ignore[call-overload]
    log_u = torch.where(r < _NEAR_BRANCH_POINT, (2 * r).sqrt() - 2 * r / 3, 1 + w)
    return torch.expm1(log_u) / gain


def interference_free_bound(scenario: Scenario, direct: Tensor) -> float:
    """g(E[max_p f_i(α_i p)]): the objective if nobody disturbed anybody, without constraints.

    No policy exceeds it on channels with the direct gains α (N, L): interference only lowers every
    f_i, g does not fall in any of them, and constraints only exclude policies.
    """
    direct = direct.to("cpu", torch.float64)
    power = scenario.pmax_w.to(direct).expand_as(direct)
    if scenario.objective == "energy_efficiency":
        efficient = most_efficient_power(
            direct, scenario.static_power.to(direct), scenario.amplifier_inefficiency
        )
        power = torch.minimum(power, efficient)
    problem = Problem.of(scenario)
    return float(problem.utility.value(problem.objective(direct * power, power).mean(0)))
