from __future__ import annotations

import pytest
import torch
from torch import Tensor

from feduplink import Constraint, InputError, Problem, Scenario
from feduplink.lagrangian import Multipliers, Prices
from feduplink.link import EnergyEfficiency, PacketSuccess, Rate
from feduplink.problem import WeightedSum
from link.own_measures import AveragePower, NothingToSee

SCENARIO = Scenario(workers=2, rate_min=(0.5, 0.6), ee_min=30.0, weights=(1.0, 2.0))


def row(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def multipliers(*rows: Tensor) -> Multipliers:
    return Multipliers(torch.stack(rows), row(1.0, 2.0))


def problem(*constraints: Constraint) -> Problem:
    return Problem(Rate(), WeightedSum(row(1.0, 2.0)), constraints)


@pytest.mark.parametrize("objective", ["success", "rate", "efficiency"])
def test_prices_of_rate_and_efficiency_constraints_by_hand(objective: str):
    """λ on rate and efficiency, ω on the objective, and λ·c0 as the cost of activation."""
    names = {"success": "psr", "rate": "rate", "efficiency": "energy_efficiency"}
    scenario = SCENARIO.replace(objective=names[objective])
    point = multipliers(row(0.1, 0.2), row(0.01, 0.0))
    prices = Prices.from_problem(Problem.from_scenario(scenario), scenario, point)
    expected = {"success": row(0, 0), "rate": row(0.1, 0.2), "efficiency": row(0.01, 0.0)}
    expected[objective] = expected[objective] + row(1.0, 2.0)
    for name, price in expected.items():
        torch.testing.assert_close(getattr(prices, name), price)
    torch.testing.assert_close(prices.activation_cost, row(0.05 + 0.3, 0.12))
    assert prices.others == ()


def test_prices_of_upper_limits_and_user_defined_measures_by_hand():
    own = problem(
        Constraint.below(AveragePower(), row(0.001, 0.002)),
        Constraint.below(EnergyEfficiency.from_scenario(SCENARIO), row(50.0, 60.0)),
    )
    point = multipliers(row(5.0, 6.0), row(0.01, 0.02))
    prices = Prices.from_problem(own, SCENARIO, point)
    ((measure, price),) = prices.others
    assert isinstance(measure, AveragePower)
    torch.testing.assert_close(price, row(-5.0, -6.0))
    torch.testing.assert_close(prices.efficiency, row(-0.01, -0.02))
    torch.testing.assert_close(prices.activation_cost, row(-0.5, -1.2))  # only while on the air
    assert point.offset(own) == pytest.approx(5 * 0.001 + 6 * 0.002)
    assert prices.to(torch.float32).others[0][1].dtype == torch.float32


def test_measures_with_the_constants_of_another_radio_have_their_own_prices():
    own = problem(
        Constraint.at_least(PacketSuccess(0.5), row(0.5, 0.5)),
        Constraint.at_least(EnergyEfficiency(row(0.02, 0.01), 1.0), row(10.0, 10.0)),
    )
    prices = Prices.from_problem(own, SCENARIO, multipliers(row(1, 1), row(1, 1)))
    assert [measure.name for measure, _ in prices.others] == ["psr", "energy_efficiency"]
    assert not prices.success.any()
    assert not prices.efficiency.any()


def test_a_measure_that_is_not_zero_in_silence_is_refused():
    own = problem(Constraint.at_least(NothingToSee(), row(1.0, 1.0)))
    with pytest.raises(InputError, match=r"^measure: one is not 0 for a silent worker; accepted"):
        Prices.from_problem(own, SCENARIO, multipliers(row(1, 1)))


@pytest.mark.parametrize(
    ("constraint", "sentence"),
    [
        (
            Constraint.below(AveragePower(), row(0.1, 0.1)),
            r"^pdx: the measure power was given; accepted: packet success, rate and energy eff",
        ),
        (
            Constraint.below(EnergyEfficiency.from_scenario(SCENARIO), row(0.1, 0.1)),
            r"^pdx: an upper limit was given; accepted: lower limits on rate and energy efficiency",
        ),
    ],
)
def test_prices_beyond_rate_and_efficiency_are_refused(constraint: Constraint, sentence: str):
    prices = Prices.from_problem(problem(constraint), SCENARIO, multipliers(row(1, 1)))
    with pytest.raises(InputError, match=sentence):
        prices.check_usual("pdx")


def test_multipliers_move_between_devices():
    moved = multipliers(row(1, 1)).to(torch.device("meta"))
    assert moved.constraints.is_meta
    assert moved.objective_weight.is_meta


def test_a_price_on_power_is_refused_by_the_network():
    zero = row(0.0, 0.0)
    with pytest.raises(InputError, match="a price on transmit power was given; accepted"):
        Prices(zero, zero, zero, zero, power_cost=row(20.0, 20.0)).check_usual("pdx")


def test_a_user_defined_rate_is_not_priced_as_the_rate():
    class HalfRate(Rate):
        def value(self, sinr: torch.Tensor, power: torch.Tensor) -> torch.Tensor:
            return super().value(sinr, power) / 2

    scenario = Scenario(workers=2)
    ones = torch.ones(2, dtype=torch.float64)
    problem = Problem(HalfRate(), WeightedSum(ones), ())
    prices = Prices.from_problem(problem, scenario, Multipliers(ones.new_zeros(0, 2), ones))
    assert prices.rate.tolist() == [0, 0]
    ((measure, price),) = prices.others
    assert (type(measure), price.tolist()) == (HalfRate, [1, 1])
