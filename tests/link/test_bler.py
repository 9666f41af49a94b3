"""``tb-success`` against Sionna's block error rates, and as objective and constraint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from feduplink import (
    DualPolicy,
    FullPower,
    InputError,
    Problem,
    Scenario,
    draw_csi,
)
from feduplink.cli.command_line import main
from feduplink.federated import Rounds, UplinkRules, everyone, transmit
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.link import PacketSuccess
from feduplink.link.bler import SuccessCurve, TransportBlockSuccess, tabulated
from feduplink.optimum import PRIMAL_GAP, find_optimum, solve_dual
from feduplink.policies import judge_policy
from feduplink.randomness import torch_generator

sionna_sys = pytest.importorskip("sionna.sys")

#: From the most robust scheme with a table to the fastest one, all three modulations.
SCHEMES = (3, 7, 10, 16, 27)
SLOT, WIDE_SLOT = 168, 111 * 168  # resource elements of 180 kHz and of 20 MHz
LOW_DB, HIGH_DB = -5.0, 30.0
#: Sionna takes the nearest SINR of a table in steps of 0.1 dB.
HALF_A_STEP_DB = 0.05 + 1e-6


def linear(decibels: Tensor) -> Tensor:
    return 10 ** (decibels / 10)


def success(curve: SuccessCurve, sinr_db: Tensor) -> Tensor:
    return curve.at(linear(sinr_db))[0]


@pytest.fixture(scope="module")
def tables():
    return sionna_sys.PHYAbstraction(precision="double", device="cpu")


@pytest.mark.parametrize("resource_elements", [SLOT, WIDE_SLOT])
@pytest.mark.parametrize("mcs", SCHEMES)
def test_success_is_that_of_sionna_to_half_a_step_of_its_tables(tables, mcs, resource_elements):
    """As whole transport blocks, by Sionna's own segmentation into code blocks."""
    sinr_db = torch.arange(LOW_DB, HIGH_DB, 0.01, dtype=torch.float64)
    _, _, _, tbler, _ = tables(
        torch.full(sinr_db.shape, mcs),
        sinr_eff=linear(sinr_db),
        num_allocated_re=torch.full(sinr_db.shape, resource_elements),
    )
    curve = tabulated(mcs, 1, resource_elements)
    assert (success(curve, sinr_db - HALF_A_STEP_DB) <= 1 - tbler + 1e-12).all()
    assert (success(curve, sinr_db + HALF_A_STEP_DB) >= 1 - tbler - 1e-12).all()
    assert float(tbler.min()) < 0.05 and float(tbler.max()) > 0.99  # the whole waterfall is there


def test_the_default_scheme_is_the_lowest_that_carries_the_default_rate():
    from sionna.phy.nr.utils import MCSDecoderNR

    bits = []
    for mcs in (TransportBlockSuccess.mcs - 1, TransportBlockSuccess.mcs):
        order, rate = MCSDecoderNR()(mcs, 1, 0)
        bits.append(float(order * rate))
    threshold = float(Scenario().rate_thresholds[0]) / torch.tensor(2.0).log().item()
    assert bits[0] < threshold <= bits[1]


@given(
    mcs=st.sampled_from(SCHEMES),
    pair=st.tuples(st.floats(-60, 60), st.floats(-60, 60)).map(sorted),
)
def test_success_is_a_non_decreasing_probability(mcs, pair):
    low, high = success(tabulated(mcs, 1, SLOT), torch.tensor(pair, dtype=torch.float64))
    assert 0 <= low <= high + 1e-12 <= 1 + 2e-12


@settings(deadline=None)
@given(
    mcs=st.sampled_from(SCHEMES),
    sinr_db=st.floats(-8, 35),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_slopes_are_those_of_finite_differences(mcs, sinr_db, dtype):
    curve = tabulated(mcs, 1, SLOT)
    s = torch.tensor(sinr_db, dtype=torch.float64) * torch.tensor(10.0).double().log() / 10
    h = 1e-6
    slope = (curve.at((s + h).exp())[0] - curve.at((s - h).exp())[0]) / (2 * h)
    # The slope is continuous, and nowhere steeper than the largest second derivative.
    steps = (curve.start + curve.width * torch.arange(curve.cubics.shape[-1] + 1.0).double()).exp()
    steepest = max(float(curve.at(steps * f)[2].abs().max()) for f in (1 - 1e-9, 1 + 1e-9))
    sinr = s.exp().to(dtype)[None]
    found = TransportBlockSuccess(curve).slopes(sinr, sinr)
    rounding = 1e-9 if dtype is torch.float64 else 1e-4 * steepest
    assert abs(float(found.s) - float(slope)) <= h * steepest + rounding
    assert float(found.t) == float(found.st) == float(found.tt) == 0


@settings(deadline=None)
@given(mcs=st.sampled_from(SCHEMES), step=st.integers(0, 352), share=st.floats(0.05, 0.95))
def test_second_slopes_are_those_of_finite_differences_within_a_step(mcs, step, share):
    curve = tabulated(mcs, 1, SLOT)
    h = 0.04 * curve.width
    s = torch.tensor(curve.start + (step + share) * curve.width, dtype=torch.float64)
    bend = (curve.at((s + h).exp())[1] - curve.at((s - h).exp())[1]) / (2 * h)
    torch.testing.assert_close(curve.at(s.exp())[2], bend, rtol=1e-6, atol=1e-7)


def test_a_silent_worker_has_zero_success_and_gradient():
    measure = TransportBlockSuccess.from_scenario(Scenario())
    silence = torch.zeros(2, requires_grad=True)
    value = measure.value(silence, silence)
    value.sum().backward()
    assert value.tolist() == [0, 0] and silence.grad.tolist() == [0, 0]


def test_most_alone_is_the_success_at_full_power_alone():
    scenario = Scenario(workers=2, pmax_dbw=(-20, 0))
    measure = TransportBlockSuccess.from_scenario(scenario)
    gain = torch.tensor([130.0, 2.0], dtype=torch.float64)
    power = scenario.max_power * torch.logspace(-4, 0, 10_001, dtype=torch.float64)[:, None]
    best = measure.value(gain * power, power).amax(0)
    assert 0.1 < float(best.min()) < 0.99  # on the slope, where the power matters
    torch.testing.assert_close(measure.most_alone(gain, scenario.max_power), best)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ({"mcs": 2}, "mcs: Sionna has no error rates for 2; accepted: 3, 4, .*, 27."),
        ({"mcs_table": 3}, "mcs_table: Sionna has no error rates for 3; accepted: 1, 2."),
    ],
)
def test_a_scheme_without_a_table_is_refused(kind, sentence):
    own = type("Own", (TransportBlockSuccess,), kind)
    with pytest.raises(InputError, match=sentence):
        own.from_scenario(Scenario())


def test_a_band_without_a_resource_block_is_refused():
    with pytest.raises(
        InputError, match="bandwidth_hz: 1000 Hz is less than one resource block; accepted"
    ):
        TransportBlockSuccess.from_scenario(Scenario(bandwidth_hz=1000))


# As objective and constraint


def two_workers(**changes: object) -> tuple[Scenario, Tensor]:
    """Two workers with so much interference that both cannot always transmit."""
    scenario = Scenario(
        **{
            "workers": 2,
            "antennas": 2,
            "interference": 4,
            "objective": "tb-success",
            "rate_min": 0,
            "ee_min": 0,
            **changes,
        }
    )
    return scenario, draw_csi(scenario, 40, torch_generator(5, "test-channels"))


def best_on_grid(scenario: Scenario, csi: Tensor, prices: Prices) -> Tensor:
    """The largest Lagrangian of every channel over all pairs of 300 powers and silence, (N,)."""
    levels = torch.cat((torch.zeros(1), torch.logspace(-6, 0, 300))).double()
    pairs = torch.cartesian_prod(levels, levels) * scenario.max_power
    batch = ChannelBatch.from_scenario(scenario, csi)
    found = []
    for channel in range(len(csi)):
        one = batch.take(torch.tensor([channel]))
        found.append(one.value(pairs[:, None], prices).max())
    return torch.stack(found)


def test_the_dual_solution_is_the_best_of_a_fine_grid():
    scenario, csi = two_workers()
    problem = Problem.from_scenario(scenario)
    solution = solve_dual(scenario, csi, problem=problem)
    prices = Prices.from_problem(problem, scenario, solution.multipliers)
    best = best_on_grid(scenario, csi, prices)
    # In a channel or two the search may end in a lesser local maximum.
    assert solution.judgement.objective == pytest.approx(float(best.mean()), abs=PRIMAL_GAP)
    reached = ChannelBatch.from_scenario(scenario, csi).value(solution.power, prices)
    assert float((best - reached > 1e-3).double().mean()) <= 0.05
    assert 0.5 < solution.judgement.participation < 0.99  # both activities are part of the optimum


@pytest.mark.slow
def test_with_constraints_the_dual_solution_is_near_the_upper_bound():
    """At any multipliers the grid's largest Lagrangians bound every policy."""
    scenario, csi = two_workers(rate_min=3.0, ee_min=120.0)
    problem = Problem.from_scenario(scenario)
    solution = solve_dual(scenario, csi, problem=problem)
    prices = Prices.from_problem(problem, scenario, solution.multipliers)
    bound = float(best_on_grid(scenario, csi, prices).mean())
    assert float(solution.multipliers.constraints.max()) > 0  # the constraints bind
    assert solution.judgement.violation <= 1e-9
    assert solution.dual_value == pytest.approx(bound, abs=PRIMAL_GAP)
    # Of 2 workers with 2 constraints each, a share of 5/N may be lost on N channels (theory, 2).
    assert bound - 5 / len(csi) < solution.judgement.objective <= bound + PRIMAL_GAP


def test_as_a_constraint_it_is_satisfied():
    scenario, csi = two_workers(objective="rate", constraints=("tb-success >= 0.97",))
    free = solve_dual(scenario.replace(constraints=()), csi)
    held = solve_dual(scenario, csi)
    measure = TransportBlockSuccess.from_scenario(scenario)
    batch = ChannelBatch.from_scenario(scenario, csi)

    def share(power: Tensor) -> Tensor:
        on_air = power > 0
        return (measure.value(batch.sinr(power), power) * on_air).sum(0) / on_air.sum(0)

    assert (share(free.power) < 0.97).any()
    assert (share(held.power) >= 0.97 - 1e-9).all()
    assert held.judgement.objective < free.judgement.objective


def test_weighted_per_is_the_error_rate_of_the_blocks():
    scenario, csi = two_workers()
    policy = DualPolicy.learned(scenario, csi)
    verdict = judge_policy(policy, csi, scenario)
    power = policy.allocate(csi).double()
    sinr = ChannelBatch.from_scenario(scenario, csi).sinr(power)
    weights = scenario.worker_weights * (power > 0)
    arrive = TransportBlockSuccess.from_scenario(scenario).value(sinr, power)
    lost = float((weights * (1 - arrive)).sum() / weights.sum())
    assert verdict.weighted_per == pytest.approx(lost)
    waterfall = PacketSuccess.from_scenario(scenario).value(sinr, power)
    assert lost != pytest.approx(float((weights * (1 - waterfall)).sum() / weights.sum()))


def test_the_certificate_refuses_the_measure():
    scenario, csi = two_workers()
    with pytest.raises(InputError, match="certificate: no upper bound is known for the measure tb"):
        find_optimum(scenario, csi)


class Mcs3(TransportBlockSuccess):
    """The most robust scheme with a table."""

    name = "tb-success-mcs3"
    mcs = 3


def federated(scenario: Scenario):
    """SINRs and arrival probabilities of 20 rounds at full power."""
    rounds = Rounds.draw(scenario, everyone(20, scenario.workers), seed=1, run=0)
    rules = UplinkRules(scenario, torch.tensor(1e6, dtype=torch.float64))
    csi = rounds.csi.double()
    power = scenario.max_power.expand(20, scenario.workers)
    cross = csi - torch.diag_embed(csi.diagonal(dim1=-2, dim2=-1))
    sinr = csi.diagonal(dim1=-2, dim2=-1) * power / (1 + (cross @ power[..., None])[..., 0])
    return sinr, transmit(FullPower(scenario), rounds, rules)


@pytest.mark.parametrize("objective", ["tb-success", f"{__name__}:Mcs3"])
def test_as_the_objective_it_is_the_arrival_probability(objective):
    kind = Mcs3 if "Mcs3" in objective else TransportBlockSuccess
    scenario = Scenario(objective=objective)
    sinr, record = federated(scenario)
    expected = kind.from_scenario(scenario).value(sinr, sinr)
    torch.testing.assert_close(record.success, expected, rtol=1e-4, atol=1e-6)
    assert 0.05 < float(expected.mean()) < 0.95


@pytest.mark.parametrize("changes", [{}, {"objective": "rate"}])
def test_with_other_objectives_the_waterfall_is_the_arrival_probability(changes):
    scenario = Scenario(**changes)
    sinr, record = federated(scenario)
    expected = PacketSuccess.from_scenario(scenario).value(sinr, sinr)
    torch.testing.assert_close(record.success, expected, rtol=1e-4, atol=1e-6)


def test_evaluate_and_train_accept_it_as_the_objective(tmp_path: Path):
    common = ["--objective", "tb-success", "--channels-per-split", "60"]
    main(["train", "--policy", "pdg", "--epochs", "3", *common, "--out", str(tmp_path / "pdg")])
    trained = str(tmp_path / "pdg")
    policies = f"rand,orth,max,openloop,{trained}"
    main(["evaluate", "--policies", policies, *common, "--out", str(tmp_path / "all")])
    metrics = json.loads((tmp_path / "all" / "metrics.json").read_text())
    assert metrics["scenario"]["objective"] == "tb-success"
    full = next(entry for name, entry in metrics["policies"].items() if name == "max")
    # Every worker transmits, so shares of losses and arrivals add up to one.
    assert full["objective"] + full["weighted_per"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["evaluate", "--policies", "pdx"], "pdx: the measure tb-success was given; accepted"),
        (["optimum"], "certificate: no upper bound is known for the measure tb-success; accepted"),
    ],
)
def test_methods_that_need_the_waterfall_refuse_it(command, sentence, tmp_path, capsys):
    common = ["--objective", "tb-success", "--channels-per-split", "30", "--out", str(tmp_path)]
    assert main([*command, *common]) != 0
    assert re.search(sentence, " ".join(capsys.readouterr().err.split()))
