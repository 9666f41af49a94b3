from __future__ import annotations

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


def test_yaml_round_trip(tmp_path):
    scenario = Scenario(
        workers=2,
        geometry="kept",
        speed_mps=3,
        rate_min=(0.1, 0.2),
        weights=(1.0, 2.0),
        channel_model="hata-urban-shadowed",
    )
    file = tmp_path / "cell.yaml"
    file.write_text(scenario.to_yaml())
    assert Scenario.from_yaml(file) == scenario


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
    assert Scenario.from_yaml(name) == Scenario(
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
        ({"channel_model": "free-space"}, r"^channel_model: .*'hata-suburban-shadowed'"),
        ({"objective": "latency"}, r"^objective: .*'energy_efficiency'"),
        ({"wrokers": 8}, r"^wrokers: no such field; accepted: workers, antennas, "),
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
        (b"\xff\xfe\x00", r"cannot read"),
    ],
)
def test_bad_yaml_is_refused(tmp_path, text, sentence):
    file = tmp_path / "cell.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=sentence) as refusal:
        Scenario.from_yaml(file)
    assert "\n" not in str(refusal.value)


def test_unknown_scenario_names_the_shipped_ones():
    with pytest.raises(InputError, match=r"'defualt'; shipped: default, interference-x2"):
        Scenario.from_yaml("defualt")


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*nowhere\.yaml"):
        Scenario.from_yaml(tmp_path / "nowhere.yaml")


def test_a_file_does_not_hide_a_shipped_scenario(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "interference-x2").write_text("workers: 3")
    assert Scenario.from_yaml("interference-x2").interference == 2
    assert Scenario.from_yaml("./interference-x2").workers == 3
