from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from feduplink import (
    FullPower,
    InputError,
    Scenario,
    draw_channels,
    draw_csi,
    load_policy,
    save_policy,
    write_channels,
)
from feduplink.channels import (
    Channels,
    Realisations,
    draw_training_csi,
    make_channels,
    observe_csi,
    resample_csi,
)
from feduplink.randomness import torch_generator
from feduplink.registry import CHANNEL_MODELS

from .toy_models import Exponential

TOYS = f"{__package__}.toy_models"


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", ["toy", f"{TOYS}:Exponential"])
def test_a_user_defined_model_is_drawn_by_name(name):
    scenario = Scenario(workers=3, channel_model=name)
    drawn = draw_csi(scenario, 5, seeded())
    assert torch.equal(drawn, Exponential(scenario).draw(5, seeded()))
    splits = make_channels(scenario, 4, seed=1)
    assert splits.training.shape == splits.test.shape == (4, 3, 3)
    assert not torch.equal(splits.training, splits.test)


def test_the_file_of_a_scenario_contains_the_name(tmp_path):
    scenario = Scenario(channel_model=f"{TOYS}:Exponential")
    (tmp_path / "s.yaml").write_text(scenario.to_yaml())
    assert f"channel_model: {TOYS}:Exponential\n" in scenario.to_yaml()
    assert Scenario.load(tmp_path / "s.yaml") == scenario


def test_interference_scales_the_cross_gains_of_any_model():
    plain, scaled = (
        draw_csi(Scenario(channel_model="toy", interference=factor), 10, seeded())
        for factor in (1.0, 8.0)
    )
    expected = torch.full((8, 8), 8.0).fill_diagonal_(1.0)
    torch.testing.assert_close(scaled / plain, expected.expand(10, 8, 8))


def test_models_in_double_precision_give_csi_in_single():
    scenario = Scenario(workers=2, channel_model=f"{TOYS}:Doubles")
    assert draw_csi(scenario, 3, seeded()).dtype == torch.float32


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("TooFew", r"csi: \(3, 2, 2\) was drawn; accepted here: a tensor \(4, 2, 2\)\.$"),
        ("Flat", r"csi: \(4, 2\) was drawn"),
        ("Listed", r"csi: list was drawn"),
        ("Whole", r"csi: .*; accepted: a tensor of float32 or float64"),
        ("NotANumber", r"csi: contains NaN or infinity"),
        ("Negative", r"csi: contains a negative or zero gain"),
        ("TooLarge", r"csi: contains NaN or infinity"),
    ],
)
def test_a_model_that_draws_invalid_csi_is_refused_by_name(model, reason):
    scenario = Scenario(workers=2, channel_model=f"{TOYS}:{model}")
    with pytest.raises(InputError, match=rf"^channel_model: {TOYS}:{model}: {reason}"):
        draw_csi(scenario, 4, seeded())


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("Exponential", r" has no antenna coefficients; accepted"),
        (
            "FewAntennas",
            r": antenna coefficients: shape \(4, 1, 1, 2\) was given; .* \(4, 2, K, n_R\)\.$",
        ),
        ("RealAntennas", r": antenna coefficients: .* real numbers"),
    ],
)
def test_missing_or_invalid_antenna_coefficients_are_refused_by_name(model, reason):
    scenario = Scenario(workers=2, channel_model=f"{TOYS}:{model}")
    with pytest.raises(InputError, match=rf"^channel_model: {TOYS}:{model}{reason}"):
        draw_channels(scenario, 4, seeded())


@pytest.mark.parametrize("geometry", ["redrawn", "kept"])
@pytest.mark.parametrize("model", ["wbs", "toy"])
def test_a_count_of_zero_is_refused(geometry, model):
    with pytest.raises(InputError, match=r"^count: 0 was given; accepted: 1 or more"):
        draw_csi(Scenario(geometry=geometry, channel_model=model), 0, seeded())


def test_a_saved_policy_imports_no_channel_model(tmp_path, monkeypatch):
    (tmp_path / "absent_model.py").write_text("class Model:\n    draw = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    # As in another process that could import the module.
    policy = FullPower(Scenario().model_copy(update={"channel_model": "absent_model:Model"}))
    save_policy(policy, tmp_path)
    with pytest.raises(
        InputError, match=r"refers to 'absent_model:Model', whose code is not imported"
    ):
        load_policy(tmp_path)
    CHANNEL_MODELS.find("absent_model:Model")
    assert load_policy(tmp_path).scenario.channel_model == "absent_model:Model"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.such:Model", "no.such:Model cannot be imported"),
        ("fractions:Fraction", "fractions:Fraction is not a channel model; accepted: a class"),
        ("math:pi", "math:pi is not a channel model"),
    ],
)
def test_a_name_that_is_not_a_channel_model_is_refused(name: str, reason: str):
    scenario = Scenario(channel_model=name)  # nothing is imported yet
    with pytest.raises(InputError, match=f"^channel_model: {reason}"):
        draw_csi(scenario, 1, torch.Generator())


def test_each_split_has_its_own_random_stream():
    scenario = Scenario(workers=3)
    splits = make_channels(scenario, 20, seed=6)
    expected = draw_csi(scenario, 20, torch_generator(6, "validation-channels"))
    torch.testing.assert_close(splits.validation, expected, rtol=0, atol=0)
    assert splits.training.shape == splits.test.shape == (20, 3, 3)
    assert not torch.equal(splits.training, splits.test)


def test_splits_of_a_kept_geometry_share_one_cell():
    """With many antennas the fading of a link averages out, and its path gain remains."""
    scenario = Scenario(workers=3, geometry="kept", antennas=256)
    splits = make_channels(scenario, 20, seed=6)

    def gains(csi: Tensor) -> Tensor:
        return csi.diagonal(dim1=-2, dim2=-1).mean(0)

    further = draw_training_csi(scenario, 50, seed=6, block=1)
    assert not torch.equal(further[:20], splits.training)
    for other in (splits.validation, splits.test, further):
        torch.testing.assert_close(gains(other), gains(splits.training), rtol=0.1, atol=0)
    assert not torch.equal(splits.test, splits.training)
    elsewhere = make_channels(scenario, 20, seed=7).training
    assert ((gains(elsewhere) / gains(splits.training)).log().abs() > 0.5).any()


def numbered(count: int) -> Tensor:
    """Channels of one worker whose gain is their position."""
    return torch.arange(1.0, count + 1)[:, None, None]


@given(st.integers(3, 200))
def test_splits_of_a_recording_partition_it_into_equal_parts(count: int):
    csi = numbered(count)
    splits = Channels.from_csi(csi)
    parts = (splits.training, splits.validation, splits.test)
    assert sorted(torch.cat(parts).flatten().tolist()) == csi.flatten().tolist()
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for part in parts:  # the whole recording, in its order
        assert (part.diff(dim=0) == 3).all()


def test_recorded_channels_are_split_in_turns():
    splits = Channels.from_csi(numbered(7))
    assert splits.training.flatten().tolist() == [1, 4, 7]
    assert splits.validation.flatten().tolist() == [2, 5]
    assert splits.test.flatten().tolist() == [3, 6]


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_recorded_channels_are_refused(count: int):
    with pytest.raises(InputError, match=rf"^channels: {count} recorded; accepted: 3 or more"):
        Channels.from_csi(numbered(count))


def test_resampling_is_uniform_and_reproducible_by_seed():
    drawn = resample_csi(numbered(4), 4000, seed=1)
    assert torch.equal(drawn, resample_csi(numbered(4), 4000, seed=1))
    assert not torch.equal(drawn, resample_csi(numbered(4), 4000, seed=2))
    shares = drawn.flatten().long().bincount(minlength=5)[1:] / 4000
    torch.testing.assert_close(shares, torch.full((4,), 0.25), rtol=0, atol=0.03)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Ten channels of three workers."""
    csi = draw_csi(Scenario(workers=3), 10, torch.Generator().manual_seed(2))
    write_channels(tmp_path / "measured.h5", Realisations(csi))
    return tmp_path / "measured.h5"


def test_drawn_splits_are_reproducible_by_seed():
    scenario = Scenario(workers=3)
    source, splits = (
        Channels.from_scenario(scenario, 6, seed=4),
        make_channels(scenario, 6, seed=4),
    )
    for part in ("training", "validation", "test"):
        assert torch.equal(getattr(source, part), getattr(splits, part))
    assert not source.recorded
    assert source.notes == []
    assert source.as_metrics() == {"source": "drawn from the scenario", "count": 6}


@pytest.mark.parametrize("geometry", ["redrawn", "kept"])
def test_fresh_channels_belong_to_the_same_cell(geometry):
    scenario = Scenario(workers=3, geometry=geometry)
    source = Channels.from_scenario(scenario, 6, seed=4)
    fresh = source.fresh(5, torch.Generator().manual_seed(9))
    cell = torch_generator(4, "cell")
    expected = draw_csi(scenario, 5, torch.Generator().manual_seed(9), cell=cell)
    assert torch.equal(fresh, expected)


def test_a_recording_reports_its_splits(recording: Path):
    source = Channels.from_file(recording)
    assert source.recorded
    assert torch.equal(
        source.csi, draw_csi(Scenario(workers=3), 10, torch.Generator().manual_seed(2))
    )
    assert source.as_metrics() == {
        "source": f"from {recording}",
        "count": 3,
        "parts": {"training": 4, "validation": 3, "test": 3},
    }
    assert source.notes == [
        f"the 10 channels from {recording} are split in turns: 4 to train and tune on, 3 for "
        "validation, 3 for the test"
    ]
    assert source.headline(source.test) == f"3 of the 10 channels from {recording}"


def test_a_recording_has_no_fresh_channels(recording: Path):
    source = Channels.from_file(recording)
    with pytest.raises(InputError, match=r"^fresh channels: those from .*measured.h5 are recorded"):
        source.fresh(1, torch.Generator())


def test_an_array_to_report_on_has_no_training_split():
    channels = Channels.for_test(torch.ones(3, 2, 2))
    assert len(channels.test) == 3
    for part in ("training", "validation"):
        with pytest.raises(
            InputError, match=f"^channels: .* without a {part} split; accepted: make_"
        ):
            getattr(channels, part)


def test_csi_without_noise_is_observed_as_it_is(default_csi: Tensor, default_scenario: Scenario):
    assert torch.equal(observe_csi(default_csi, default_scenario, seed=1), default_csi)


def test_the_noise_on_observed_csi_depends_on_seed_and_run(default_csi: Tensor):
    scenario = Scenario(csi_noise=25.0)
    seen = observe_csi(default_csi, scenario, seed=1)
    assert torch.equal(seen, observe_csi(default_csi, scenario, seed=1, run=0))
    for seed, run in ((2, 0), (1, 1)):
        assert not torch.equal(seen, observe_csi(default_csi, scenario, seed=seed, run=run))


def test_observed_csi_has_the_workers_of_the_scenario(default_csi: Tensor):
    with pytest.raises(InputError, match="csi: "):
        observe_csi(default_csi, Scenario(workers=3), seed=0)
