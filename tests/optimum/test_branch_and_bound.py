"""Bounds on the largest Lagrangian are sound against exhaustive searches, tight and monotone."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from feduplink import Constraint, InputError, Measure, Problem, Scenario
from feduplink.channels import make_channels
from feduplink.lagrangian import ChannelBatch, Multipliers, Prices
from feduplink.link import Rate
from feduplink.optimum import BranchingTree, Certificate, certify, find_optimum
from feduplink.proofs.format import Node
from link.own_measures import Sinr
from recorder import Recorder
from simulated_gpu import GPU, simulated_gpu

from .reference import (
    Instance,
    best_local_search,
    best_on_grid,
    lagrangian,
    random_instance,
    wide_instance,
)


class MonotoneSinr(Sinr):
    """The SINR with its monotonicity declared."""

    monotone_in_sinr = 1
    monotone_in_power = 0


@pytest.mark.parametrize("seed", range(9))
def test_the_bound_converges_to_the_best_value(seed: int):
    instance = random_instance(seed, workers=2, channels=4)
    scale = 1 + float(instance.prices.success.sum() + instance.prices.rate.sum())
    certificate = certify(instance.batch, instance.prices, gap=1e-4 * scale)
    assert certificate.gap <= 1e-4 * scale
    best = torch.tensor([best_on_grid(instance, k, 120) for k in range(4)], dtype=torch.float64)
    torch.testing.assert_close(certificate.lower, best, atol=1e-4 * scale, rtol=1e-4)


def test_more_boxes_never_loosen_a_bound_and_the_powers_reach_the_lower_one(
    default_scenario: Scenario, default_csi: torch.Tensor
):
    batch = ChannelBatch.from_scenario(default_scenario, default_csi[:20])
    multipliers = Multipliers(
        torch.full((2, 8), 1e-4, dtype=torch.float64), default_scenario.worker_weights
    )
    problem = Problem.from_scenario(default_scenario)
    prices = Prices.from_problem(problem, default_scenario, multipliers)
    recorder = Recorder()
    certificate = certify(batch, prices, max_boxes=60_000, gap=1e-5, callbacks=[recorder])
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


def test_without_prices_both_bounds_are_zero():
    instance = random_instance(0, workers=3, channels=2)
    zero = torch.zeros(3, dtype=torch.float64)
    prices = type(instance.prices)(zero, zero, zero, zero)
    certificate = certify(instance.batch, prices, max_boxes=1000)
    assert float(certificate.upper.max()) < 1e-6
    assert float(certificate.lower.min()) == 0


def test_measures_without_a_bound_are_refused_in_one_sentence(default_csi: torch.Tensor):
    csi = default_csi[:5, :2, :2]
    for text in ("link.own_measures:Sinr >= 2", "link.own_measures:AveragePower >= 0.001"):
        scenario = Scenario(workers=2, constraints=text)
        with pytest.raises(InputError, match=r"^certificate: no upper bound is known .*power\.$"):
            find_optimum(scenario, csi, max_boxes=0)


@pytest.mark.parametrize("measure", [Rate(), MonotoneSinr()])
def test_upper_limits_on_measures_that_rise_with_the_sinr_are_bounded(
    default_csi: torch.Tensor, measure: Measure
):
    """Against all pairs of powers of a grid, with a negative price on the measure."""
    scenario = Scenario(workers=2, rate_min=0, ee_min=0, interference=4)
    usual = Problem.from_scenario(scenario)
    limit = torch.full((2,), 1.0, dtype=torch.float64)
    problem = Problem(usual.objective, usual.utility, (Constraint.below(measure, limit),))
    batch = ChannelBatch.from_scenario(scenario, default_csi[:10, :2, :2])
    multipliers = Multipliers(
        torch.full((1, 2), 0.1, dtype=torch.float64), scenario.worker_weights[:2]
    )
    prices = Prices.from_problem(problem, scenario, multipliers)
    certificate = certify(batch, prices, gap=1e-3)
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
    certificate = certify(batch, prices, gap=1e-4)
    levels = torch.cat((torch.zeros(1), torch.logspace(-6, -2, 150))).double()
    pairs = torch.cartesian_prod(levels, levels)
    searched = torch.stack(
        [batch.take(torch.tensor([n])).value(pairs, prices).max() for n in range(len(batch.direct))]
    )
    assert (certificate.upper >= searched).all()
    assert (certificate.lower >= searched - 2e-3 * searched.abs()).all()
    assert certificate.gap <= 1e-4


def test_bounds_of_one_and_of_several_threads_agree():
    instance = random_instance(20, workers=4, channels=40)

    def certificate(threads: int) -> Certificate:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return certify(instance.batch, instance.prices, max_boxes=60_000, gap=0.0)
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


#: Rounding of the brute-force value.
_ROUNDING = 1e-12


def _best(instance: Instance, per_worker: int) -> torch.Tensor:
    channels = range(len(instance.batch.direct))
    values = [best_on_grid(instance, k, per_worker) for k in channels]
    return torch.tensor(values, dtype=torch.float64)


def _assert_sound(instance: Instance, best: torch.Tensor, max_boxes: int) -> None:
    certificate = certify(instance.batch, instance.prices, max_boxes=max_boxes)
    assert (certificate.upper >= best - _ROUNDING).all(), (certificate.upper - best).min()
    assert (certificate.upper >= certificate.lower).all()
    # The powers reach the lower bound, by the formulas of the reference.
    reached = [
        float(lagrangian(instance, k, power)) for k, power in enumerate(certificate.power.numpy())
    ]
    assert certificate.lower.tolist() == pytest.approx(reached)


@pytest.mark.parametrize(
    "seed", [*range(0, 10), *(pytest.param(s, marks=pytest.mark.slow) for s in range(10, 24))]
)
def test_bounds_of_two_workers_enclose_the_best_of_a_grid(seed: int):
    instance = random_instance(seed, workers=2, channels=8)
    best = _best(instance, per_worker=160)
    for max_boxes in (0, 10_000):
        _assert_sound(instance, best, max_boxes)


@pytest.mark.parametrize(
    "seed", [*range(100, 106), *(pytest.param(s, marks=pytest.mark.slow) for s in range(106, 118))]
)
def test_bounds_of_three_workers_enclose_the_best_of_a_grid(seed: int):
    instance = random_instance(seed, workers=3, channels=6)
    best = _best(instance, per_worker=36)
    for max_boxes in (0, 10_000):
        _assert_sound(instance, best, max_boxes)


@pytest.mark.parametrize(
    "seed", [*range(200, 202), *(pytest.param(s, marks=pytest.mark.slow) for s in range(202, 206))]
)
def test_bounds_of_four_workers_enclose_a_thousand_local_searches(seed: int):
    instance = random_instance(seed, workers=4, channels=3)
    values = [best_local_search(instance, k, starts=1000, seed=k) for k in range(3)]
    best = torch.tensor(values, dtype=torch.float64)
    for max_boxes in (0, 20_000):
        _assert_sound(instance, best, max_boxes)


def _assert_never_under_a_grid(seed: int, workers: int, max_boxes: int) -> None:
    """Gains over twelve decades, waterfalls from 1e-4 to 10, every objective."""
    instance = wide_instance(seed, workers)
    best = _best(instance, per_worker=120 if workers == 2 else 24)
    scale = 1 + float(best.abs().max())
    for record in (False, True):
        certificate = certify(
            instance.batch,
            instance.prices,
            max_boxes=max_boxes,
            gap=1e-3 * scale,
            record=record,
        )
        assert (certificate.upper >= best - _ROUNDING * scale).all(), (seed, record)


@pytest.mark.parametrize("seed", range(40))
def test_bounds_are_sound_with_gains_over_twelve_decades(seed: int):
    _assert_never_under_a_grid(seed, workers=2 + seed % 2, max_boxes=1000)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_bounds_of_a_thousand_instances_over_twelve_decades_are_sound(block: int):
    for seed in range(100 * block, 100 * (block + 1)):
        _assert_never_under_a_grid(seed, workers=2 + seed % 2, max_boxes=3000)


_SCENARIO = Scenario(workers=2)
_CSI = make_channels(_SCENARIO, 8, seed=0).test


def _certificate(csi: Tensor, measure: int, *, record: bool) -> Certificate:
    """With a price on packet success, rate or energy efficiency (``measure`` 0, 1 or 2)."""
    prices = torch.zeros(4, 2, dtype=torch.float64, device=csi.device)
    prices[measure] = 1.0
    batch = ChannelBatch.from_scenario(_SCENARIO, csi)
    target = (1e-3, 1e-2, 1.0)[measure]
    return certify(batch, Prices(*prices), gap=target, record=record)


@pytest.mark.parametrize("measure", [0, 1, 2])
@pytest.mark.parametrize("record", [False, True])
def test_bounds_on_a_gpu_are_those_on_the_cpu(measure: int, record: bool):
    expected = _certificate(_CSI[:2], measure, record=record)
    with simulated_gpu():
        found = _certificate(_CSI[:2].to(GPU), measure, record=record).to(torch.device("cpu"))
    torch.testing.assert_close(found.lower, expected.lower)
    torch.testing.assert_close(found.upper, expected.upper)
    torch.testing.assert_close(found.power, expected.power)
    assert (found.tree is not None) == record


def test_the_number_of_gpu_operations_hardly_grows_with_the_channels():
    counted = []
    for count in (1, 8):
        with simulated_gpu() as gpu:
            _certificate(_CSI[:count].to(GPU), 1, record=False)
        counted.append(gpu.launches)
    assert counted[1] < 2 * counted[0]


def test_tensors_of_two_devices_are_refused():
    with simulated_gpu(), pytest.raises(RuntimeError, match="on the CPU and on the GPU"):
        torch.ones(2, device=GPU) + torch.ones(2)


# A recorded search is a tree whose leaves prove the certificate.


def _recorded(seed: int, workers: int) -> tuple[BranchingTree, torch.Tensor]:
    instance = random_instance(seed, workers=workers, channels=4)
    certificate = certify(instance.batch, instance.prices, max_boxes=10_000, gap=1e-3, record=True)
    assert certificate.tree is not None
    return certificate.tree, certificate.upper


def test_every_node_is_a_leaf_or_has_two_children():
    for seed in range(6):
        tree, _ = _recorded(seed, workers=3)
        inner = tree.parent >= 0
        assert int(inner.sum()) > 0
        halves = torch.zeros(len(tree.parent), 2, dtype=torch.int64)
        halves.index_put_(
            (tree.parent[inner], tree.upper_half[inner].long()), torch.tensor(1), accumulate=True
        )
        assert torch.equal(halves, (~tree.leaf).long()[:, None].expand(-1, 2))
        assert (tree.parent[inner] < inner.nonzero()[:, 0]).all()
        assert torch.equal(tree.channel[inner], tree.channel[tree.parent[inner]])


def test_leaves_claim_the_bounds_of_the_certificate():
    for seed in range(6):
        tree, upper = _recorded(seed, workers=3)
        assert (tree.channel_bounds(4) <= upper + 1e-12).all()
        assert (tree.upper[tree.proof == Node.EMPTY] == -torch.inf).all()
        tangents = tree.tangent_row[tree.proof == Node.TANGENT]
        assert torch.equal(tangents.sort().values, torch.arange(len(tree.tangents.sinr_slope)))
        assert (tree.tangents.sinr_slope >= 0).all()


def test_the_tree_is_recorded_only_on_request():
    instance = random_instance(0, workers=2, channels=2)
    assert certify(instance.batch, instance.prices, max_boxes=1000).tree is None
