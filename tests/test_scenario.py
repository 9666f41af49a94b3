from __future__ import annotations

import math
import sys

import pytest
import torch

from feduplink import InputError, Scenario, TrainingSettings, shipped_scenarios
from feduplink.scenario import ConstraintText


def test_powers_are_converted_to_watts():
    scenario = Scenario(pmax_dbw=-30)
    assert float(scenario.max_power) == pytest.approx(1e-3)
    # 180 kHz · (−174 dBm/Hz + 3 dB) = 1.8e5 · 10^(−20.1) W
    assert scenario.noise_power_w == pytest.approx(1.8e5 * 10**-20.1)


def test_default_weights_are_the_data_sizes_of_the_paper():
    # numpy.random.RandomState(42).randint(100, 1000, 8)
    sizes = torch.tensor([202, 535, 960, 370, 206, 171, 800, 120], dtype=torch.float64)
    torch.testing.assert_close(Scenario().worker_weights, sizes / 3364)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [("uniform", [0.5, 0.5]), ("ones", [1.0, 1.0]), ((3.0, 1.0), [3.0, 1.0])],
)
def test_weights_are_given_by_name_or_as_a_list(weights, expected):
    assert Scenario(workers=2, weights=weights).worker_weights.tolist() == expected


def test_thresholds_are_common_or_per_worker():
    scenario = Scenario(workers=3, rate_min=0.5, ee_min=[10, 20, 30])
    assert scenario.rate_thresholds.tolist() == [0.5, 0.5, 0.5]
    assert scenario.ee_thresholds.tolist() == [10, 20, 30]


#: All constants that may be given per worker.
LISTED = {
    "pmax_dbw": (-20.0, -30.0),
    "static_power_w": (0.01, 0.02),
    "compute_energy_j_per_bit": (0.0, 1e-9),
    "bits_per_weight": (32.0, 16.0),
}


def test_constants_of_the_radio_are_common_or_per_worker():
    one, each = Scenario(workers=2), Scenario(workers=2, **LISTED)
    assert one.max_power.shape == one.static_power.shape == one.compute_energy.shape == ()
    assert (one.max_power.item(), one.static_power.item()) == (pytest.approx(0.01), 0.01)
    assert each.max_power.tolist() == pytest.approx([0.01, 0.001])
    assert each.static_power.tolist() == [0.01, 0.02]
    assert each.compute_energy.tolist() == [0.0, 1e-9]
    assert {t.dtype for t in (each.max_power, each.static_power, each.compute_energy)} == {
        torch.float64
    }


def test_the_bits_of_an_upload_are_those_of_weights_and_a_checksum():
    assert Scenario().model_bits(100).item() == 3232
    assert Scenario(bits_per_weight=1.5).model_bits(100).item() == 182
    assert Scenario(workers=2, **LISTED).model_bits(100).tolist() == [3232, 1632]


@pytest.mark.parametrize("field", LISTED)
def test_listed_per_worker_gives_the_number_of_entries(field):
    listed = Scenario(workers=2, **{field: LISTED[field]})
    assert listed.listed_per_worker(field) == 2
    assert listed.listed_per_worker("rate_min", field) == 2
    assert listed.listed_per_worker("rate_min") is None
    assert Scenario(workers=2).listed_per_worker(*LISTED) is None


@pytest.mark.parametrize("field", LISTED)
def test_constants_of_another_number_of_workers_are_refused(field):
    with pytest.raises(InputError, match=rf"^{field} has 2 entries; .* each of the 3 workers\.$"):
        Scenario(workers=3, **{field: LISTED[field]})


def test_thresholds_follow_from_limits_of_time_and_energy():
    """An upload of constant rate and power at the thresholds reaches both limits."""
    scenario = Scenario(workers=2, bandwidth_hz=1e5, compute_energy_j_per_bit=1e-8)
    limited = scenario.with_limits(1e6, time_max_s=4.0, energy_max_j=0.2)
    seconds = 1e6 * math.log(2) / (1e5 * limited.rate_min)
    assert seconds == pytest.approx(4)
    power = limited.rate_min / limited.ee_min  # p + P_c, W
    assert 1e-8 * 1e6 + power * seconds == pytest.approx(0.2)
    assert limited.replace(rate_min=scenario.rate_min, ee_min=scenario.ee_min) == scenario


def test_limits_per_worker_give_thresholds_per_worker():
    scenario = Scenario(workers=2, bandwidth_hz=1e5, compute_energy_j_per_bit=(0.0, 1e-7))
    bits = torch.tensor([1e6, 2e6])
    limited = scenario.with_limits(bits, time_max_s=torch.tensor([4.0, 16.0]), energy_max_j=0.5)
    alone = [
        Scenario(bandwidth_hz=1e5, compute_energy_j_per_bit=computing).with_limits(
            z, time_max_s=seconds, energy_max_j=0.5
        )
        for z, seconds, computing in ((1e6, 4.0, 0.0), (2e6, 16.0, 1e-7))
    ]
    assert limited.rate_min == pytest.approx([one.rate_min for one in alone])
    assert limited.ee_min == pytest.approx([one.ee_min for one in alone])


def test_a_limit_changes_its_own_threshold_only():
    scenario = Scenario(rate_min=0.3, ee_min=20)
    assert scenario.with_limits(1e6) == scenario
    assert scenario.with_limits(1e6, time_max_s=7.0).ee_min == 20
    assert scenario.with_limits(1e6, energy_max_j=0.3).rate_min == 0.3


def test_the_compute_energy_of_one_worker_does_not_limit_another():
    """The first has no compute energy; the second spends 1 J before it transmits."""
    scenario = Scenario(workers=2, compute_energy_j_per_bit=(0.0, 1e-6))
    limited = scenario.with_limits(1e6, energy_max_j=torch.tensor([0.1, 1.1]))
    assert limited.ee_min == pytest.approx([math.log(2) / 180e3 / 1e-7] * 2, rel=1e-6)
    sentence = r"^energy_max_j: \[0.5, 0.5\] is not .* above \[0.0, 1.0\], the computation energy"
    with pytest.raises(InputError, match=sentence):
        scenario.with_limits(1e6, energy_max_j=torch.tensor([0.5, 0.5]))


@pytest.mark.parametrize("limit", ["time_max_s", "energy_max_j"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_limits_out_of_range_are_refused(limit, value):
    with pytest.raises(InputError, match=rf"^{limit}: .*; accepted: finite and above 0\.$"):
        Scenario().with_limits(1e6, **{limit: value})


def test_the_yaml_round_trip_is_exact(tmp_path):
    scenario = Scenario(
        workers=2,
        geometry="kept",
        speed_mps=3,
        rate_min=(0.1, 0.2),
        weights=(1.0, 2.0),
        channel_model="hata-urban-shadowed",
        **LISTED,
    )
    file = tmp_path / "cell.yaml"
    file.write_text(scenario.to_yaml())
    assert Scenario.load(file) == scenario


@pytest.mark.parametrize(
    ("name", "pmax_dbw", "interference", "rate_min", "ee_min"),
    [
        ("default", -20, 1, 0.70, 55),
        ("pmax-minus-40dbw", -40, 1, 0.32, 32),
        ("pmax-minus-30dbw", -30, 1, 0.55, 50),
        ("pmax-minus-10dbw", -10, 1, 0.70, 55),
        ("pmax-0dbw", 0, 1, 0.70, 55),
        ("interference-x2", -20, 2, 0.45, 40),
        ("interference-x4", -20, 4, 0.35, 30),
        ("interference-x8", -20, 8, 0.25, 20),
    ],
)
def test_shipped_scenarios_have_the_thresholds_of_the_paper(
    name, pmax_dbw, interference, rate_min, ee_min
):
    assert name in shipped_scenarios()
    assert Scenario.load(name) == Scenario(
        pmax_dbw=pmax_dbw, interference=interference, rate_min=rate_min, ee_min=ee_min
    )


def test_replace_validates_again():
    with pytest.raises(InputError, match=r"^rate_min has 8 entries; .* each of the 4 workers"):
        Scenario(rate_min=[0.7] * 8).replace(workers=4)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"rate_min": -1}, r"^rate_min: .*greater than or equal to 0 \(got -1\)\.$"),
        ({"rate_min": 41}, r"^rate_min: .*less than or equal to 40"),
        ({"ee_min": float("nan")}, r"^ee_min: .*finite"),
        ({"ee_min": [1.0, -2.0], "workers": 2}, r"^ee_min: .*greater than or equal to 0"),
        ({"ee_min": [1.0, 2.0]}, r"^ee_min has 2 entries; .* 8 workers\.$"),
        ({"weights": [1.0] * 7}, r"^weights has 7 entries"),
        ({"weights": [1.0] * 7 + [0.0]}, r"^weights: .*greater than 0"),
        ({"weights": "sizes"}, r"^weights: 'sizes' is unknown; accepted: data, uniform, ones"),
        ({"workers": 0}, r"^workers: .*greater than or equal to 1 \(got 0\)"),
        ({"workers": 2.5}, r"^workers: .*integer"),
        ({"antennas": 0}, r"^antennas: .*greater than or equal to 1"),
        ({"interference": 0}, r"^interference: .*greater than 0"),
        ({"csi_noise": -1}, r"^csi_noise: .*greater than or equal to 0"),
        ({"pmax_dbw": float("inf")}, r"^pmax_dbw: .*finite"),
        ({"pmax_dbw": 100}, r"^pmax_dbw: .*less than or equal to 60"),
        ({"channel_model": "free-space"}, r"^channel_model: 'free-space' is .*hata-urban,"),
        ({"channel_model": 3}, r"^channel_model: Input should be a valid string"),
        (
            {"objective": "latency"},
            r"^objective: 'latency' is unknown; .*energy_efficiency, .*Object\.$",
        ),
        ({"objective": "rat"}, r"^objective: 'rat' is unknown, did you mean rate\? accepted: psr"),
        (
            {"constraints": "rate"},
            r"^constraints: 'rate' is not accepted; .* separated by spaces\.$",
        ),
        ({"constraints": ["psr >= 0.5 0.6"]}, r"^constraints: .* one limit or 8, one per worker"),
        ({"constraints": ["latency <= 3"]}, r"^constraints: 'latency' is unknown"),
        (
            {"wrokers": 8},
            r"^wrokers: no such field, did you mean workers\? accepted: workers, antennas, ",
        ),
        ({"speed_mps": 3}, r"^speed_mps and coherence_time_s .* geometry: kept\.$"),
    ],
)
def test_an_invalid_field_is_refused_in_one_sentence_that_names_it(fields, sentence):
    with pytest.raises(InputError, match=sentence) as refusal:
        Scenario(**fields)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"epochs": 0}, r"^epochs: .*greater than or equal to 1"),
        ({"learning_rate": float("nan")}, r"^learning_rate: .*finite"),
        ({"lr": 0.1}, r"^lr: no such field; accepted: epochs"),
    ],
)
def test_invalid_training_settings_are_refused(fields, sentence):
    with pytest.raises(InputError, match=sentence):
        TrainingSettings(**fields)


def test_scenarios_are_equal_by_their_fields():
    one, same, other = Scenario(), Scenario(), Scenario(rate_min=0.5)
    for scenario in (one, same, other):
        assert scenario.worker_weights.sum() == pytest.approx(1)
        assert len(scenario.rate_thresholds) == 8
    assert one == same != other
    assert hash(one) == hash(same)


def test_a_scenario_file_lists_further_constraints(tmp_path):
    file = tmp_path / "cell.yaml"
    file.write_text(
        "workers: 2\nconstraints:\n- psr >= 0.9\n- link.own_measures:AveragePower <= 0.001 0.002\n"
    )
    scenario = Scenario.load(file)
    assert scenario.constraints == (
        "psr >= 0.9",
        "link.own_measures:AveragePower <= 0.001 0.002",
    )
    assert scenario.measures == ("psr", "psr", "link.own_measures:AveragePower")
    file.write_text(scenario.to_yaml())
    assert Scenario.load(file) == scenario


def test_a_single_constraint_need_not_be_a_list(tmp_path):
    file = tmp_path / "cell.yaml"
    file.write_text("constraints: psr >= 0.9")
    assert Scenario.load(file).constraints == ("psr >= 0.9",)


def test_reading_a_scenario_imports_no_measure(tmp_path, monkeypatch):
    (tmp_path / "harmful_measure.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("harmful_measure:Objective", "harmful_measure:Limit")
    scenario = Scenario(objective=names[0], constraints=f"{names[1]} >= 1")
    assert scenario.measures == names
    assert "harmful_measure" not in sys.modules


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("workers: [1", r"is not YAML"),
        ("- workers", r"must hold a mapping of field names"),
        ("", r"must hold a mapping of field names"),
        ("1: 2", r"must hold a mapping of field names"),
        ("self: 2", r"^self: no such field"),
        ("workers: 0", r"^workers: "),
        ("rate_min: .nan", r"^rate_min: .*finite"),
        (b"\xff\xfe\x00", r"is not text in UTF-8"),
    ],
)
def test_invalid_yaml_is_refused(tmp_path, text, sentence):
    file = tmp_path / "cell.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=sentence) as refusal:
        Scenario.load(file)
    assert "\n" not in str(refusal.value)


def test_an_unknown_scenario_is_refused_with_the_shipped_names():
    with pytest.raises(
        InputError, match=r"'defualt' is unknown, did you mean default\? accepted: def"
    ):
        Scenario.load("defualt")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.yaml does not exist"):
        Scenario.load(tmp_path / "nowhere.yaml")


def test_a_file_does_not_hide_a_shipped_scenario(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "interference-x2").write_text("workers: 3")
    assert Scenario.load("interference-x2").interference == 2
    assert Scenario.load("./interference-x2").workers == 3


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("rate >= 0.7", ("rate", False, (0.7,))),
        ("power<=0.005", ("power", True, (0.005,))),
        ("  my.module:Power  <=  1e-3 2e-3 0 ", ("my.module:Power", True, (1e-3, 2e-3, 0.0))),
        ("gain >= -3", ("gain", False, (-3.0,))),
    ],
)
def test_a_constraint_is_parsed_into_name_direction_and_limits(text: str, parts: tuple):
    assert ConstraintText.parse(text, workers=3) == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rate",
        "rate >= ",
        "rate > 0.7",
        "rate = 0.7",
        "0.7 <= rate",
        ">= 0.7",
        "rate >= high",
        "rate >= 0.7 0.8",  # neither one nor three
        "rate >= nan",
        "rate >= inf",
        "rate >= 0.7 <= 0.9",
        "two words >= 0.7",
    ],
)
def test_an_invalid_constraint_is_refused_in_one_sentence(text: str):
    with pytest.raises(InputError) as refusal:
        ConstraintText.parse(text, workers=3)
    assert str(refusal.value).startswith(f"constraints: {text!r} is not accepted; accepted: NAME")
    assert "one limit or 3, one per worker" in str(refusal.value)


def test_any_cell_is_redrawn_and_does_not_move():
    kept = Scenario(workers=3, geometry="kept", speed_mps=2.0, coherence_time_s=1.0)
    assert kept.any_cell() == Scenario(workers=3)
