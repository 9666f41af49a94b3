from __future__ import annotations

import math
import sys

import pytest
import torch

from feduplink import InputError, Scenario, TrainingSettings, shipped_scenarios


def test_powers_become_watts():
    scenario = Scenario(pmax_dbw=-30)
    assert float(scenario.pmax_w) == pytest.approx(1e-3)
    # 180 kHz · (−174 dBm/Hz + 3 dB) = 1.8e5 · 10^(−20.1) W
    assert scenario.noise_power_w == pytest.approx(1.8e5 * 10**-20.1)


def test_default_weights_are_the_papers_data_sizes():
    # numpy.random.RandomState(42).randint(100, 1000, 8)
    sizes = torch.tensor([202, 535, 960, 370, 206, 171, 800, 120], dtype=torch.float64)
    torch.testing.assert_close(Scenario().worker_weights, sizes / 3364)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [("uniform", [0.5, 0.5]), ("ones", [1.0, 1.0]), ((3.0, 1.0), [3.0, 1.0])],
)
def test_weights_by_name_or_by_list(weights, expected):
    assert Scenario(workers=2, weights=weights).worker_weights.tolist() == expected


def test_one_threshold_serves_all_workers_and_a_list_serves_each():
    scenario = Scenario(workers=3, rate_min=0.5, ee_min=[10, 20, 30])
    assert scenario.rate_thresholds.tolist() == [0.5, 0.5, 0.5]
    assert scenario.ee_thresholds.tolist() == [10, 20, 30]


#: Every constant that may be listed per worker.
LISTED = {
    "pmax_dbw": (-20.0, -30.0),
    "static_power_w": (0.01, 0.02),
    "compute_energy_j_per_bit": (0.0, 1e-9),
    "bits_per_weight": (32.0, 16.0),
}


def test_the_radios_constants_are_one_value_or_one_per_worker():
    one, each = Scenario(workers=2), Scenario(workers=2, **LISTED)
    assert one.pmax_w.shape == one.static_power.shape == one.compute_energy.shape == ()
    assert (one.pmax_w.item(), one.static_power.item()) == (pytest.approx(0.01), 0.01)
    assert each.pmax_w.tolist() == pytest.approx([0.01, 0.001])
    assert each.static_power.tolist() == [0.01, 0.02]
    assert each.compute_energy.tolist() == [0.0, 1e-9]
    assert {t.dtype for t in (each.pmax_w, each.static_power, each.compute_energy)} == {
        torch.float64
    }


def test_bits_of_an_upload_are_weights_and_a_checksum():
    assert Scenario().model_bits(100).item() == 3232
    assert Scenario(bits_per_weight=1.5).model_bits(100).item() == 182
    assert Scenario(workers=2, **LISTED).model_bits(100).tolist() == [3232, 1632]


@pytest.mark.parametrize("field", LISTED)
def test_whether_anything_is_listed_per_worker(field):
    listed = Scenario(workers=2, **{field: LISTED[field]})
    assert listed.listed_per_worker(field) == 2
    assert listed.listed_per_worker("rate_min", field) == 2
    assert listed.listed_per_worker("rate_min") is None
    assert Scenario(workers=2).listed_per_worker(*LISTED) is None


@pytest.mark.parametrize("field", LISTED)
def test_constants_of_another_number_of_workers_are_refused(field):
    with pytest.raises(InputError, match=rf"^{field} has 2 entries; .* each of the 3 workers\.$"):
        Scenario(workers=3, **{field: LISTED[field]})


def test_thresholds_from_limits():
    """At the thresholds an upload of constant rate and power takes just what it may."""
    scenario = Scenario(workers=2, bandwidth_hz=1e5, compute_energy_j_per_bit=1e-8)
    limited = scenario.with_limits(1e6, time_max_s=4.0, energy_max_j=0.2)
    seconds = 1e6 * math.log(2) / (1e5 * limited.rate_min)
    assert seconds == pytest.approx(4)
    power = limited.rate_min / limited.ee_min  # p + P_c, W
    assert 1e-8 * 1e6 + power * seconds == pytest.approx(0.2)
    assert limited.replace(rate_min=scenario.rate_min, ee_min=scenario.ee_min) == scenario


def test_limits_of_each_worker():
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


def test_only_the_limited_thresholds_change():
    scenario = Scenario(rate_min=0.3, ee_min=20)
    assert scenario.with_limits(1e6) == scenario
    assert scenario.with_limits(1e6, time_max_s=7.0).ee_min == 20
    assert scenario.with_limits(1e6, energy_max_j=0.3).rate_min == 0.3


def test_what_one_worker_computes_does_not_limit_another():
    """The first computes nothing; the second spends 1 J before it sends a bit."""
    scenario = Scenario(workers=2, compute_energy_j_per_bit=(0.0, 1e-6))
    limited = scenario.with_limits(1e6, energy_max_j=torch.tensor([0.1, 1.1]))
    assert limited.ee_min == pytest.approx([math.log(2) / 180e3 / 1e-7] * 2, rel=1e-6)
    sentence = r"^energy_max_j: \[0.5, 0.5\] is not .* above \[0.0, 1.0\], which the computation"
    with pytest.raises(InputError, match=sentence):
        scenario.with_limits(1e6, energy_max_j=torch.tensor([0.5, 0.5]))


@pytest.mark.parametrize("limit", ["time_max_s", "energy_max_j"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_limits_out_of_range_are_refused(limit, value):
    with pytest.raises(InputError, match=rf"^{limit}: .*; accepted: finite and above 0\.$"):
        Scenario().with_limits(1e6, **{limit: value})


def test_yaml_round_trip(tmp_path):
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
def test_shipped_scenarios_have_the_papers_thresholds(
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
        ({"weights": "sizes"}, r"^weights: .*'data', 'uniform' or 'ones'"),
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
def test_bad_field_is_refused_in_one_sentence_that_names_it(fields, sentence):
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
def test_training_settings_are_checked_alike(fields, sentence):
    with pytest.raises(InputError, match=sentence):
        TrainingSettings(**fields)


def test_scenarios_are_equal_by_their_fields_whatever_was_computed_from_them():
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


def test_one_constraint_need_not_be_a_list(tmp_path):
    file = tmp_path / "cell.yaml"
    file.write_text("constraints: psr >= 0.9")
    assert Scenario.load(file).constraints == ("psr >= 0.9",)


def test_a_scenario_imports_nothing_to_be_read(tmp_path, monkeypatch):
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
        (b"\xff\xfe\x00", r"is no text in UTF-8"),
    ],
)
def test_bad_yaml_is_refused(tmp_path, text, sentence):
    file = tmp_path / "cell.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=sentence) as refusal:
        Scenario.load(file)
    assert "\n" not in str(refusal.value)


def test_unknown_scenario_names_the_shipped_ones():
    with pytest.raises(
        InputError, match=r"'defualt' is unknown, did you mean default\? accepted: def"
    ):
        Scenario.load("defualt")


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.yaml does not exist"):
        Scenario.load(tmp_path / "nowhere.yaml")


def test_a_file_does_not_hide_a_shipped_scenario(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "interference-x2").write_text("workers: 3")
    assert Scenario.load("interference-x2").interference == 2
    assert Scenario.load("./interference-x2").workers == 3
