from __future__ import annotations

from pathlib import Path

import pytest
import torch

from feduplink import DualPolicy, InputError, Problem, Scenario, draw_csi, shipped_scenarios
from feduplink.channels import draw_training_csi
from feduplink.lagrangian import ChannelBatch, DualPoint, Multipliers
from feduplink.optimum import solve_dual
from feduplink.policies import (
    UnrolledPolicy,
    judge_policy,
    kept_point,
    make_policy,
    shipped_network,
    shipped_pdx,
    shipped_point,
)
from feduplink.progress import report_to
from feduplink.storage.tensorfile import read_tensors
from recorder import Recorder


def _with(scenario: Scenario, constraints: torch.Tensor) -> DualPolicy:
    multipliers = Multipliers(constraints.double(), scenario.worker_weights)
    return DualPolicy(scenario, DualPoint(multipliers, Problem.from_scenario(scenario).thresholds))


def _policy(scenario: Scenario) -> DualPolicy:
    return _with(scenario, torch.full((2, scenario.workers), 1e-4))


def test_maximises_the_lagrangian(generator: torch.Generator):
    """No powers of a fine grid are better, silence and full power among them."""
    scenario = Scenario(workers=2, interference=4.0)
    csi = draw_csi(scenario, 6, generator).double()
    policy = _with(scenario, torch.tensor([[0.1, 0.0], [0.0, 2e-3]]))
    prices = policy.prices(csi)
    steps = torch.cat((torch.zeros(1), torch.logspace(-7, -2, 200))).double()
    grid = torch.cartesian_prod(steps, steps)
    power = policy.allocate(csi)
    for channel, chosen in zip(csi, power, strict=True):
        batch = ChannelBatch.from_scenario(scenario, channel.expand(len(grid), 2, 2))
        best = batch.value(grid, prices).max()
        value = ChannelBatch.from_scenario(scenario, channel[None]).value(chosen[None], prices)
        assert value.item() >= best.item() - 1e-6
    assert ((power > 0) & (power < 0.99 * scenario.max_power)).any()  # not all at an end


def test_powers_of_a_channel_do_not_depend_on_its_batch(
    default_scenario: Scenario, default_csi: torch.Tensor
):
    policy = _policy(default_scenario)
    csi = default_csi.double()
    prices = policy.prices(csi)
    together = ChannelBatch.from_scenario(default_scenario, csi[:8]).value(
        policy.allocate(csi)[:8], prices
    )
    alone = torch.cat([policy.allocate(csi[k : k + 1]) for k in range(8)])
    value = ChannelBatch.from_scenario(default_scenario, csi[:8]).value(alone, prices)
    torch.testing.assert_close(value, together, atol=1e-5, rtol=1e-5)


def test_dual_refuses_other_numbers_of_workers(default_csi: torch.Tensor):
    with pytest.raises(InputError, match="8 workers; accepted here: exactly 4"):
        _policy(Scenario(workers=4)).allocate(default_csi)


def test_learned_multipliers_hold_on_unseen_channels():
    scenario = Scenario(workers=3, interference=4)
    training = draw_csi(scenario, 1500, torch.Generator().manual_seed(5))
    unseen = draw_csi(scenario, 1500, torch.Generator().manual_seed(6))
    policy = DualPolicy.learned(scenario, training)
    assert (policy.point.multipliers.constraints > 0).any()
    verdict = judge_policy(policy, unseen, scenario)
    assert verdict.violation < 0.03  # two standard errors of 1500 channels
    own = solve_dual(scenario, unseen)
    assert abs(own.dual_value - verdict.objective) < 0.005


def test_seed_determines_the_channels_of_the_multipliers():
    scenario = Scenario(workers=1, rate_min=2.0, ee_min=110)
    drawn, other = (make_policy("dual", scenario, seed=seed).point for seed in (0, 1))
    again = DualPolicy.learned(scenario, draw_training_csi(scenario, 20_000, seed=0)).point
    assert torch.equal(drawn.thresholds, again.thresholds)
    assert not torch.equal(drawn.thresholds, other.thresholds)
    assert (drawn.thresholds > Problem.from_scenario(scenario).thresholds).all()


def test_thresholds_get_a_margin_for_unseen_channels():
    scenario = Scenario(workers=2, rate_min=2.0, ee_min=110)
    training = draw_csi(scenario, 30, torch.Generator().manual_seed(7))
    thresholds = Problem.from_scenario(scenario).thresholds
    recorded = make_policy("dual", scenario, channels=training)
    assert (recorded.point.thresholds > thresholds).all()
    assert judge_policy(recorded, training, scenario).violation == 0


SMALL = Scenario(workers=3)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDUPLINK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def equal(one: DualPoint, other: DualPoint) -> bool:
    ours, theirs = one.tensors(), other.tensors()
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def searched(work: Recorder) -> bool:
    """Whether multipliers were looked for."""
    return any("multipliers" in done.title or "dual" in done.title for done in work.works)


@pytest.mark.parametrize("name", shipped_scenarios())
def test_shipped_scenarios_need_no_search(name: str, cache: Path):
    with report_to(recorder := Recorder()):
        policy = shipped_pdx(Scenario.load(name))
    assert not searched(recorder)
    assert policy.allocate(draw_csi(policy.scenario, 2, torch.Generator())).shape == (2, 8)
    assert not cache.exists()


def test_other_scenarios_have_no_shipped_multipliers():
    assert shipped_point("pdx", Scenario(rate_min=0.71)) is None
    assert shipped_point("dual", Scenario()) is None


@pytest.mark.slow
def test_shipped_multipliers_equal_computed_ones(cache: Path):
    scenario = Scenario.load("interference-x4")
    csi = draw_training_csi(scenario, 20_000, seed=0)
    found = UnrolledPolicy.calibrated(shipped_network(), scenario, csi).point
    shipped = shipped_pdx(scenario).point
    for name, values in found.tensors().items():
        torch.testing.assert_close(values, shipped.tensors()[name], rtol=1e-4, atol=0)


@pytest.mark.parametrize("kind", ["pdx", "dual"])
def test_multipliers_are_cached_and_equal_when_read(kind: str, cache: Path):
    csi = draw_csi(SMALL, 50, torch.Generator().manual_seed(0))
    make = shipped_pdx if kind == "pdx" else DualPolicy.learned
    with report_to(first := Recorder()):
        found = make(SMALL, csi)
    with report_to(second := Recorder()):
        again = make(SMALL, csi)
    assert searched(first)
    assert not searched(second)
    assert equal(found.point, again.point)
    with report_to(others := Recorder()):
        make(SMALL, csi[1:])
    assert searched(others)


def test_damaged_cache_file_is_recomputed(cache: Path):
    csi = draw_csi(SMALL, 50, torch.Generator().manual_seed(0))
    found = shipped_pdx(SMALL, csi).point
    [file] = cache.rglob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-8])
    assert equal(shipped_pdx(SMALL, csi).point, found)


def test_empty_cache_variable_disables_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FEDUPLINK_CACHE", "")
    monkeypatch.chdir(tmp_path)
    shipped_pdx(SMALL, draw_csi(SMALL, 20, torch.Generator().manual_seed(0)))
    assert list(tmp_path.iterdir()) == []


def test_read_only_cache_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEDUPLINK_CACHE", str(tmp_path / "file"))
    point = shipped_pdx().point
    assert kept_point("pdx", SMALL, {}, {}, lambda _: point) is point


def test_other_settings_have_another_cache_entry(cache: Path):
    points = iter([shipped_pdx().point] * 2)

    def keep(margin: float) -> None:
        kept_point("pdx", SMALL, {}, {"margin": margin}, lambda _: next(points))

    keep(1.0)
    keep(2.0)
    assert next(points, None) is None
    keep(1.0)
    kept = [read_tensors(file, "multipliers").header for file in cache.rglob("*.safetensors")]
    assert sorted(header["margin"] for header in kept) == [1.0, 2.0]
    assert all("format" in header for header in kept)  # a number that code may increase
