from __future__ import annotations

import pytest
import torch

from feduplink import (
    FullPower,
    InputError,
    Scenario,
    draw_channels,
    draw_csi,
    load_policy,
    save_policy,
)
from feduplink.channels import make_channels
from feduplink.registry import CHANNEL_MODELS

from .toy_models import Exponential

TOYS = f"{__package__}.toy_models"


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", ["toy", f"{TOYS}:Exponential"])
def test_a_model_of_ones_own_is_drawn_by_name(name):
    scenario = Scenario(workers=3, channel_model=name)
    drawn = draw_csi(scenario, 5, seeded())
    assert torch.equal(drawn, Exponential(scenario).draw(5, seeded()))
    splits = make_channels(scenario, 4, seed=1)
    assert splits.training.shape == splits.test.shape == (4, 3, 3)
    assert not torch.equal(splits.training, splits.test)


def test_the_file_of_a_scenario_holds_the_name(tmp_path):
    scenario = Scenario(channel_model=f"{TOYS}:Exponential")
    (tmp_path / "s.yaml").write_text(scenario.to_yaml())
    assert f"channel_model: {TOYS}:Exponential\n" in scenario.to_yaml()
    assert Scenario.from_yaml(tmp_path / "s.yaml") == scenario


def test_interference_is_a_factor_on_what_any_model_draws():
    plain, scaled = (
        draw_csi(Scenario(channel_model="toy", interference=factor), 10, seeded())
        for factor in (1.0, 8.0)
    )
    expected = torch.full((8, 8), 8.0).fill_diagonal_(1.0)
    torch.testing.assert_close(scaled / plain, expected.expand(10, 8, 8))


def test_double_precision_is_drawn_in_single():
    scenario = Scenario(workers=2, channel_model=f"{TOYS}:Doubles")
    assert draw_csi(scenario, 3, seeded()).dtype == torch.float32


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("TooFew", r"csi: \(3, 2, 2\) was drawn; accepted here: a tensor \(4, 2, 2\)\.$"),
        ("Flat", r"csi: \(4, 2\) was drawn"),
        ("Listed", r"csi: list was drawn"),
        ("Whole", r"csi: accepted is a tensor of float32 or float64"),
        ("NotANumber", r"csi: holds NaN or infinity"),
        ("Negative", r"csi: holds a negative or zero gain"),
        ("TooLarge", r"csi: holds NaN or infinity"),
    ],
)
def test_a_model_that_draws_no_csi_is_refused_by_name(model, reason):
    scenario = Scenario(workers=2, channel_model=f"{TOYS}:{model}")
    with pytest.raises(InputError, match=rf"^channel_model: {TOYS}:{model}: {reason}"):
        draw_csi(scenario, 4, seeded())


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("Exponential", r" draws no antenna coefficients; accepted"),
        ("FewAntennas", r": antenna coefficients: shape \(4, 1, 1, 2\); .* \(4, 2, K, n_R\)\.$"),
        ("RealAntennas", r": antenna coefficients: .* real numbers"),
    ],
)
def test_antenna_coefficients_that_are_not_there_are_refused_by_name(model, reason):
    scenario = Scenario(workers=2, channel_model=f"{TOYS}:{model}")
    with pytest.raises(InputError, match=rf"^channel_model: {TOYS}:{model}{reason}"):
        draw_channels(scenario, 4, seeded())


@pytest.mark.parametrize("geometry", ["redrawn", "kept"])
@pytest.mark.parametrize("model", ["wbs", "toy"])
def test_drawing_nothing_is_refused(geometry, model):
    with pytest.raises(InputError, match=r"^count: 0; accepted: 1 or more"):
        draw_csi(Scenario(geometry=geometry, channel_model=model), 0, seeded())


def test_a_saved_policy_imports_no_channel_model(tmp_path, monkeypatch):
    (tmp_path / "absent_model.py").write_text("class Model:\n    draw = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    # As another process would, which had the module.
    policy = FullPower(Scenario().model_copy(update={"channel_model": "absent_model:Model"}))
    save_policy(policy, tmp_path)
    with pytest.raises(InputError, match=r"holds 'absent_model:Model', whose code is not here"):
        load_policy(tmp_path)
    CHANNEL_MODELS.find("absent_model:Model")
    assert load_policy(tmp_path).scenario.channel_model == "absent_model:Model"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.such:Model", "no.such:Model cannot be imported"),
        ("fractions:Fraction", "fractions:Fraction is no channel model; accepted: a class"),
        ("math:pi", "math:pi is no channel model"),
    ],
)
def test_what_is_no_channel_model_is_refused(name: str, reason: str):
    scenario = Scenario(channel_model=name)  # nothing is imported yet
    with pytest.raises(InputError, match=f"^channel_model: {reason}"):
        draw_csi(scenario, 1, torch.Generator())
