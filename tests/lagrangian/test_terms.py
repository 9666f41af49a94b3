from __future__ import annotations

import pytest
import torch
from torch import Tensor

from feduplink import Scenario, judge
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices, gradient_and_hessian
from feduplink.problem import Problem, transmitting_mean

_OBJECTIVES = ["psr", "rate", "energy_efficiency"]


def _random_powers(csi: Tensor, scenario: Scenario, silent_share: float) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    shape = csi.shape[:-1]
    power = 10 ** (-4 * torch.rand(shape, generator=generator, dtype=torch.float64))
    silent = torch.rand(shape, generator=generator) < silent_share
    return torch.where(silent, 0.0, scenario.pmax_w * power)


def _prices(scenario: Scenario) -> Prices:
    generator = torch.Generator().manual_seed(4)
    constraints = torch.rand(2, scenario.workers, generator=generator, dtype=torch.float64)
    scale = torch.tensor([[0.1], [0.001]], dtype=torch.float64)
    return Multipliers(constraints * scale, scenario.worker_weights).prices(scenario)


@pytest.mark.parametrize("objective", _OBJECTIVES)
def test_derivatives_are_those_of_autograd(default_csi: Tensor, objective: str):
    scenario = Scenario(objective=objective, amplifier_inefficiency=2.5)
    cell, prices = ChannelBatch.from_scenario(scenario, default_csi[:5]), _prices(scenario)
    power = _random_powers(default_csi[:5], scenario, silent_share=0.3)
    gradient, hessian = gradient_and_hessian(cell, power, prices)
    on_air = power > 0
    for k in range(len(power)):
        one = cell.take(torch.tensor([k]))

        def value(t: Tensor, one: ChannelBatch = one, k: int = k) -> Tensor:
            return one.value(torch.where(on_air[k], t.exp(), 0.0)[None], prices)[0]

        t = torch.where(on_air[k], power[k], 1.0).log()
        expected_gradient = torch.autograd.functional.jacobian(value, t)
        expected_hessian = torch.autograd.functional.hessian(value, t)
        torch.testing.assert_close(gradient[k], expected_gradient, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(hessian[k], expected_hessian, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("objective", _OBJECTIVES)
def test_the_mean_lagrangian_is_objective_plus_priced_surplus(default_csi: Tensor, objective: str):
    scenario = Scenario(objective=objective)
    power = _random_powers(default_csi, scenario, silent_share=0.4)
    multipliers = Multipliers(
        torch.rand(2, 8, dtype=torch.float64), scenario.worker_weights.to(torch.float64)
    )
    cell = ChannelBatch.from_scenario(scenario, default_csi)
    verdict = judge(power, default_csi, scenario)
    expected = verdict.objective
    sinr, share = cell.sinr(power), (power > 0).double().mean(0)
    for multiplier, constraint in zip(
        multipliers.constraints, Problem.from_scenario(scenario).constraints, strict=True
    ):
        mean = transmitting_mean(constraint.measure.value(sinr, power), power)
        # E[1(p > 0)(c − c0)] = P(p > 0) (E[c | p > 0] − c0)
        expected += float((multiplier * share * (mean - constraint.threshold)).sum())
    value = cell.value(
        power, Prices.from_problem(Problem.from_scenario(scenario), scenario, multipliers)
    ).mean()
    assert float(value) == pytest.approx(expected, rel=1e-9)
