from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from feduplink import Problem, Scenario, draw_csi
from feduplink.lagrangian import ChannelBatch, Prices, maximise
from feduplink.optimum import FAR, NEAR, DualDescent, solve_dual


def test_with_the_search_as_maximiser_it_comes_near_the_minimum_of_the_dual_function():
    scenario = Scenario(workers=2, interference=4, rate_min=3.0, ee_min=40)
    problem = Problem.from_scenario(scenario)
    csi = draw_csi(scenario, 300, torch.Generator().manual_seed(1))
    batch = ChannelBatch.from_scenario(scenario, csi)

    def search(csi: Tensor, prices: Prices) -> Tensor:
        return maximise(ChannelBatch.from_scenario(scenario, csi), prices, rounds=1)

    descent = DualDescent(problem, scenario, csi, search)
    descent.descend(FAR)
    far = descent.multipliers
    descent.descend(replace(NEAR, channels=300, steps=40))
    prices = Prices.from_problem(problem, scenario, descent.multipliers)
    reached = float(batch.value(maximise(batch, prices), prices).mean())
    smallest = solve_dual(scenario, csi).dual_value
    assert (descent.multipliers.constraints * problem.thresholds).max() > 0.02  # there is a price
    assert not torch.equal(far.constraints, descent.multipliers.constraints)
    assert smallest - 1e-6 < reached < smallest + 1e-3


def test_the_order_of_channels_is_that_of_the_seed():
    scenario = Scenario(workers=2, rate_min=8.0)
    problem = Problem.from_scenario(scenario)
    csi = draw_csi(scenario, 400, torch.Generator().manual_seed(1))

    def full_power(csi: Tensor, _: Prices) -> Tensor:
        return torch.full((len(csi), 2), float(scenario.pmax_w), dtype=torch.float64)

    def found(seed: int) -> Tensor:
        descent = DualDescent(problem, scenario, csi, full_power, seed=seed)
        descent.descend(FAR)
        return descent.multipliers.constraints

    assert torch.equal(found(1), found(1))
    assert not torch.equal(found(1), found(2))


def test_only_multipliers_of_what_is_missed_beyond_the_noise_are_raised():
    """Powers that no price changes: one worker misses its rate by far, the other is on the edge."""
    scenario = Scenario(workers=2, rate_min=(8.0, 8.0), ee_min=0.1)
    csi = draw_csi(scenario, 400, torch.Generator().manual_seed(1))
    power = torch.full((400, 2), float(scenario.pmax_w), dtype=torch.float64)
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    rates = Problem.from_scenario(scenario).constraint_values(sinr, power)[0].mean(0)
    scenario = scenario.replace(rate_min=(1.5 * float(rates[0]), 1.001 * float(rates[1])))
    problem = Problem.from_scenario(scenario)
    descent = DualDescent(problem, scenario, csi, lambda csi, _: power[: len(csi)])
    descent.descend(replace(FAR, channels=400))
    before = descent.multipliers.constraints
    descent.raise_missed(2, 400)
    raised = descent.multipliers.constraints / before
    assert (before[0] > 0).all()
    torch.testing.assert_close(raised[0], torch.tensor([1.21, 1.0], dtype=torch.float64))
    assert torch.equal(descent.multipliers.constraints[1], before[1])


def _full_power() -> tuple[Tensor, Tensor, Tensor]:
    """Channels, powers, and rates of the first worker, from the channel with the largest down."""
    scenario = Scenario(workers=2, rate_min=8.0)
    csi = draw_csi(scenario, 8000, torch.Generator().manual_seed(1))
    power = torch.full((8000, 2), float(scenario.pmax_w), dtype=torch.float64)
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    rates = Problem.from_scenario(scenario).constraint_values(sinr, power)[0, :, 0]
    rates, order = rates.sort(descending=True)
    return csi[order], power, rates


def _raised(rate_min: float, descended_on: slice, looked_at: Sequence[Tensor]) -> tuple[float, int]:
    """Factor by which the first worker's multiplier is raised, and the number of looks."""
    before, after, looks = _multipliers(rate_min, descended_on, looked_at)
    assert before > 0
    return after / before, looks


def _multipliers(
    rate_min: float, descended_on: slice, looked_at: Sequence[Tensor]
) -> tuple[float, float, int]:
    """The first worker's multiplier before and after it is raised, and the number of looks."""
    csi, power, _ = _full_power()
    scenario = Scenario(workers=2, rate_min=(rate_min, 0.1), ee_min=0.1)
    descent = DualDescent(
        Problem.from_scenario(scenario),
        scenario,
        csi[descended_on],
        lambda csi, _: power[: len(csi)],
    )
    descent.descend(replace(FAR, channels=400))
    before = float(descent.multipliers.constraints[0, 0])
    seen = []

    def look(number: int) -> Tensor:
        seen.append(number)
        return csi[looked_at[number]]

    descent.raise_missed(len(looked_at), 0, look)
    return before, float(descent.multipliers.constraints[0, 0]), len(seen)


def test_other_channels_tell_what_those_of_the_descent_do_not():
    """A threshold that the best channels miss by less than the noise, and all together by far."""
    best, everything = slice(400), torch.arange(8000)
    rates = _full_power()[2]
    assert float(rates.mean()) < 0.9 * float(rates[best].mean())
    threshold = 1.005 * float(rates[best].mean())
    assert _raised(threshold, best, [everything[best]])[0] == 1.0
    assert _raised(threshold, best, [everything])[0] > 1.03


def test_a_multiplier_of_zero_is_raised_too():
    """A threshold that the channels of the descent meet by far, and all together miss."""
    rates = _full_power()[2]
    threshold = 0.8 * float(rates[:400].mean())
    assert float(rates.mean()) < 0.9 * threshold
    before, after, _ = _multipliers(threshold, slice(400), [torch.arange(8000)])
    assert before == 0
    assert after > 0


def test_a_constraint_is_judged_on_all_looks_since_it_was_raised():
    """One look at 50 channels does not tell that a tenth is missing; sixteen together do."""
    threshold = 1.1 * float(_full_power()[2].mean())
    looks = [torch.arange(begin, 8000, 160) for begin in range(72, 88)]
    alone = [_raised(threshold, slice(4000, 8000), [look])[0] for look in looks]
    together, _ = _raised(threshold, slice(4000, 8000), looks)
    assert alone == [1.0] * 16
    assert 1.02 < together < 1.1


def test_it_looks_until_no_constraint_may_well_be_missed():
    """Twenty channels do not tell a rate that has a little to spare; all of them do."""
    threshold = 0.97 * float(_full_power()[2].mean())
    few, everything = [torch.arange(begin, 8000, 400) for begin in range(4)], torch.arange(8000)
    assert _raised(threshold, slice(4000, 8000), few) == (1.0, 4)
    assert _raised(threshold, slice(4000, 8000), [everything] * 4) == (1.0, 1)


def test_a_mean_far_above_its_threshold_needs_not_be_known_well():
    threshold = 0.5 * float(_full_power()[2].mean())
    few = [torch.arange(begin, 8000, 200) for begin in range(4)]
    assert _raised(threshold, slice(7960, 8000), few) == (1.0, 1)


def test_channels_that_come_again_count_once():
    """Fifty channels do not tell that a tenth is missing, however often they are looked at."""
    csi, power, rates = _full_power()
    fifty = csi[torch.arange(72, 8000, 160)]
    scenario = Scenario(workers=2, rate_min=(1.1 * float(rates.mean()), 0.1), ee_min=0.1)
    descent = DualDescent(
        Problem.from_scenario(scenario), scenario, fifty, lambda csi, _: power[: len(csi)]
    )
    descent.descend(replace(FAR, channels=50))
    before = descent.multipliers.constraints
    descent.raise_missed(16, 400)
    assert before[0, 0] > 0
    assert torch.equal(descent.multipliers.constraints, before)
