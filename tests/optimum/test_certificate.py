from __future__ import annotations

import itertools

import pytest
import torch

from feduplink import Constraint, InputError, Problem, Scenario, find_optimum
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices
from feduplink.link import Measure, Rate
from feduplink.optimum import Certificate, certify
from link.own_measures import Sinr
from recorder import Recorder

from .reference import best_on_grid, random_instance


class MonotoneSinr(Sinr):
    """The SINR, which says in what it is monotone."""

    monotone_in_sinr = 1
    monotone_in_power = 0


@pytest.mark.parametrize("seed", range(9))
def test_the_bound_converges_to_the_best_value(seed: int):
    instance = random_instance(seed, workers=2, channels=4)
    scale = 1 + float(instance.prices.success.sum() + instance.prices.rate.sum())
    certificate = certify(instance.batch, instance.prices, target_gap=1e-4 * scale)
    assert certificate.gap <= 1e-4 * scale
    best = torch.tensor([best_on_grid(instance, k, 120) for k in range(4)], dtype=torch.float64)
    torch.testing.assert_close(certificate.lower, best, atol=1e-4 * scale, rtol=1e-4)


def test_the_powers_reach_the_lower_bound_and_more_boxes_never_loosen_it(
    default_scenario: Scenario, default_csi: torch.Tensor
):
    batch = ChannelBatch.from_scenario(default_scenario, default_csi[:20])
    multipliers = Multipliers(
        torch.full((2, 8), 1e-4, dtype=torch.float64), default_scenario.worker_weights
    )
    problem = Problem.from_scenario(default_scenario)
    prices = Prices.from_problem(problem, default_scenario, multipliers)
    recorder = Recorder()
    certificate = certify(batch, prices, max_boxes=60_000, target_gap=1e-5, callbacks=[recorder])
    assert certificate.boxes >= 60_000
    torch.testing.assert_close(batch.value(certificate.power, prices), certificate.lower)
    assert (certificate.power <= batch.pmax_w).all()
    seen = [step.detail for step in recorder.steps]
    for earlier, later in itertools.pairwise(seen):
        assert isinstance(earlier, Certificate)
        assert isinstance(later, Certificate)
        assert (later.upper <= earlier.upper + 1e-12).all()
        assert (later.lower >= earlier.lower - 1e-12).all()
        assert later.boxes > earlier.boxes


def test_without_prices_there_is_nothing_to_gain():
    instance = random_instance(0, workers=3, channels=2)
    zero = torch.zeros(3, dtype=torch.float64)
    prices = type(instance.prices)(zero, zero, zero, zero)
    certificate = certify(instance.batch, prices, max_boxes=1000)
    assert float(certificate.upper.max()) < 1e-6
    assert float(certificate.lower.min()) == 0


def test_what_it_cannot_bound_is_refused_in_one_sentence(default_csi: torch.Tensor):
    csi = default_csi[:5, :2, :2]
    for text in ("link.own_measures:Sinr >= 2", "link.own_measures:AveragePower >= 0.001"):
        scenario = Scenario(workers=2, constraints=text)
        with pytest.raises(InputError, match=r"^certificate: has no bound with .*power\.$"):
            find_optimum(scenario, csi, max_boxes=0)


@pytest.mark.parametrize("measure", [Rate(), MonotoneSinr()])
def test_upper_limits_on_what_rises_with_the_sinr_are_bounded_as_a_search_finds_it(
    default_csi: torch.Tensor, measure: Measure
):
    """Against all pairs of powers of a grid: success is wanted, and much of a measure is not."""
    scenario = Scenario(workers=2, rate_min=0, ee_min=0, interference=4)
    usual = Problem.from_scenario(scenario)
    limit = torch.full((2,), 1.0, dtype=torch.float64)
    problem = Problem(usual.objective, usual.utility, (Constraint.below(measure, limit),))
    batch = ChannelBatch.from_scenario(scenario, default_csi[:10, :2, :2])
    multipliers = Multipliers(
        torch.full((1, 2), 0.1, dtype=torch.float64), scenario.worker_weights[:2]
    )
    prices = Prices.from_problem(problem, scenario, multipliers)
    certificate = certify(batch, prices, target_gap=1e-3)
    levels = torch.cat((torch.zeros(1), torch.logspace(-8, -2, 200))).double()
    pairs = torch.cartesian_prod(levels, levels)
    searched = torch.stack(
        [batch.take(torch.tensor([n])).value(pairs, prices).max() for n in range(len(batch.direct))]
    )
    assert (certificate.upper >= searched).all()
    assert (certificate.lower >= searched - 1e-3).all()
    assert certificate.gap <= 1e-3


@pytest.mark.parametrize("objective", ["psr", "rate", "energy_efficiency"])
@pytest.mark.parametrize("price", [0.0, 3.0, 100.0])
def test_a_price_on_a_measure_of_power_is_bounded(
    default_csi: torch.Tensor, objective: str, price: float
):
    """Against all pairs of powers of a fine grid, silence included."""
    scenario = Scenario(workers=2, objective=objective, rate_min=0, ee_min=0, interference=4)
    limited = scenario.replace(constraints="link.own_measures:AveragePower <= 0.001")
    batch = ChannelBatch.from_scenario(scenario, default_csi[:20, :2, :2])
    problem = Problem.from_scenario(limited)
    multipliers = torch.zeros(3, 2, dtype=torch.float64)
    multipliers[2] = price * (40 if objective == "energy_efficiency" else 1)
    prices = Prices.from_problem(
        problem, limited, Multipliers(multipliers, scenario.worker_weights)
    )
    certificate = certify(batch, prices, target_gap=1e-4)
    levels = torch.cat((torch.zeros(1), torch.logspace(-6, -2, 150))).double()
    pairs = torch.cartesian_prod(levels, levels)
    searched = torch.stack(
        [batch.take(torch.tensor([n])).value(pairs, prices).max() for n in range(len(batch.direct))]
    )
    assert (certificate.upper >= searched).all()
    assert (certificate.lower >= searched - 2e-3 * searched.abs()).all()
    assert certificate.gap <= 1e-4


def test_several_threads_prove_the_same():
    instance = random_instance(20, workers=4, channels=40)

    def certificate(threads: int) -> Certificate:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return certify(instance.batch, instance.prices, max_boxes=60_000, target_gap=0.0)
        finally:
            torch.set_num_threads(before)

    alone, together = certificate(1), certificate(3)
    assert alone.boxes > 4096  # more than one thread bounds at a time
    assert together.boxes > 4096
    assert (together.upper >= alone.lower - 1e-12).all()
    assert (alone.upper >= together.lower - 1e-12).all()
    torch.testing.assert_close(together.lower, alone.lower, rtol=1e-3, atol=1e-3)


def test_prices_on_power_and_per_channel_are_bounded(
    default_csi: torch.Tensor,
):
    """Against all triples of powers of a grid."""
    scenario = Scenario(workers=3)
    batch = ChannelBatch.from_scenario(scenario, default_csi[:5, :3, :3])
    free = torch.zeros(3, dtype=torch.float64)
    rates = torch.rand(5, 3, generator=torch.Generator().manual_seed(1)).double()
    prices = Prices(free, rates, free, free + 0.1, power_cost=free + 20.0)
    certificate = certify(batch, prices, channel_gap=0.01)
    levels = torch.cat((torch.zeros(1), torch.logspace(-4, 0, 30))).double()
    power = torch.cartesian_prod(levels, levels, levels)[:, None] * batch.pmax_w
    interference = 1 + (batch.cross @ power[..., None])[..., 0]
    sinr = batch.direct * power / interference
    searched = batch.worker_values(sinr, power, prices).sum(-1).amax(0)
    assert (certificate.upper >= searched).all()
    assert (certificate.upper - certificate.lower <= 0.01).all()
