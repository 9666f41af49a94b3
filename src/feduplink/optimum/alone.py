"""What a worker reaches alone on the air, which nobody exceeds in company."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink import link
from feduplink.problem import Problem
from feduplink.scenario import Scenario


def interference_free_bound(scenario: Scenario, direct: Tensor) -> float:
    """g(E[max_p f_i(α_i p)]): the objective if nobody disturbed anybody, without constraints.

    No policy exceeds it on channels with the direct gains α (N, L): interference only lowers every
    f_i, g does not fall in any of them, and constraints only exclude policies.
    """
    direct = direct.to("cpu", torch.float64)
    power = scenario.pmax_w.to(direct).expand_as(direct)
    if scenario.objective == "energy_efficiency":
        efficient = link.most_efficient_power(
            direct, scenario.static_power.to(direct), scenario.amplifier_inefficiency
        )
        power = torch.minimum(power, efficient)
    problem = Problem.of(scenario)
    return float(problem.utility.value(problem.objective(direct * power, power).mean(0)))
