from __future__ import annotations

import pytest
import torch
from torch import Tensor

from feduplink import Scenario, judge
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices, gradient_and_hessian
from feduplink.problem import Constraint, Problem, WeightedSum
from link.own_measures import AveragePower, PowerOnAir, Sinr

_OBJECTIVES = ["psr", "rate", "energy_efficiency"]


def _random_powers(csi: Tensor, scenario: Scenario, silent_share: float) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    shape = csi.shape[:-1]
    power = 10 ** (-4 * torch.rand(shape, generator=generator, dtype=torch.float64))
    silent = torch.rand(shape, generator=generator) < silent_share
    return torch.where(silent, 0.0, scenario.max_power * power)


def _prices(scenario: Scenario) -> Prices:
    generator = torch.Generator().manual_seed(4)
    constraints = torch.rand(2, scenario.workers, generator=generator, dtype=torch.float64)
    scale = torch.tensor([[0.1], [0.001]], dtype=torch.float64)
    multipliers = Multipliers(constraints * scale, scenario.worker_weights)
    return Prices.from_problem(Problem.from_scenario(scenario), scenario, multipliers)


def _own_problem() -> Problem:
    """The rate under limits of both kinds on user-defined measures."""
    limits = torch.linspace(1e-3, 8e-3, 8, dtype=torch.float64)
    return Problem(
        AveragePower(),
        WeightedSum(torch.linspace(0.5, 2.0, 8, dtype=torch.float64)),
        (
            Constraint.below(AveragePower(), limits),
            Constraint.at_least(Sinr(), 100 * limits),
            Constraint.below(PowerOnAir(), limits),
        ),
    )


def _own_multipliers() -> Multipliers:
    generator = torch.Generator().manual_seed(5)
    constraints = torch.rand(3, 8, generator=generator, dtype=torch.float64)
    return Multipliers(constraints, _own_problem().utility.weights)


def _own_prices(scenario: Scenario) -> Prices:
    return Prices.from_problem(_own_problem(), scenario, _own_multipliers())


@pytest.mark.parametrize("objective", [*_OBJECTIVES, "own"])
def test_derivatives_are_those_of_autograd(default_csi: Tensor, objective: str):
    own = objective == "own"
    scenario = Scenario(objective="psr" if own else objective, amplifier_inefficiency=2.5)
    batch = ChannelBatch.from_scenario(scenario, default_csi[:5])
    prices = _own_prices(scenario) if own else _prices(scenario)
    power = _random_powers(default_csi[:5], scenario, silent_share=0.3)
    gradient, hessian = gradient_and_hessian(batch, power, prices)
    on_air = power > 0
    for k in range(len(power)):
        one = batch.take(torch.tensor([k]))

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
    batch = ChannelBatch.from_scenario(scenario, default_csi)
    verdict = judge(scenario, default_csi, power)
    expected = verdict.objective
    sinr, share = batch.sinr(power), (power > 0).double().mean(0)
    for multiplier, constraint in zip(
        multipliers.constraints, Problem.from_scenario(scenario).constraints, strict=True
    ):
        mean = constraint.mean(constraint.measure.value(sinr, power), power)
        # E[1(p > 0)(c − c0)] = P(p > 0) (E[c | p > 0] − c0)
        expected += float((multiplier * share * (mean - constraint.threshold)).sum())
    value = batch.value(
        power, Prices.from_problem(Problem.from_scenario(scenario), scenario, multipliers)
    ).mean()
    assert float(value) == pytest.approx(expected, rel=1e-9)


def test_the_mean_lagrangian_of_a_user_defined_problem(default_csi: Tensor):
    """Objective plus priced surplus; that of constraints on all rounds omits −Σ λ c0."""
    scenario, problem, multipliers = Scenario(), _own_problem(), _own_multipliers()
    power = _random_powers(default_csi, scenario, silent_share=0.4)
    batch = ChannelBatch.from_scenario(scenario, default_csi)
    sinr, on_air = batch.sinr(power), power > 0
    most, least, on_air_most = (c.limit for c in problem.constraints)
    surplus = torch.stack(
        (
            most - power.mean(0),
            torch.where(on_air, sinr - least, 0.0).mean(0),
            torch.where(on_air, on_air_most - power, 0.0).mean(0),
        )
    )
    expected = (problem.utility.weights * power.mean(0)).sum()
    expected += (multipliers.constraints * surplus).sum()
    value = batch.value(power, _own_prices(scenario)).mean() + multipliers.offset(problem)
    assert float(value) == pytest.approx(float(expected), rel=1e-9)
    assert multipliers.offset(problem) == pytest.approx(
        float((multipliers.constraints[0] * most).sum())
    )
