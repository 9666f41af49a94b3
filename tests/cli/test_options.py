"""Limits on the time and the energy of an upload, which become thresholds of the scenario."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from federated.conftest import blob_task
from feduplink.channels import draw_channels, write_channels
from feduplink.cli.command_line import main
from feduplink.federated import LocalWork, Task
from feduplink.scenario import Scenario

from .conftest import Run, metrics_of, refused

BANDWIDTH = 180e3
#: The paper's network for digits, 784-50-10, at 32 bits per weight, and a checksum.
PAPERS_BITS = 32 * (784 * 50 + 50 + 50 * 10 + 10) + 32


def rate_for(bits: float, seconds: float) -> float:
    """Nats/s/Hz that send so many bits in so many seconds."""
    return bits * math.log(2) / (BANDWIDTH * seconds)


def efficiency_for(bits: float, joules: float, computing: float = 0.0) -> float:
    """Nats/s/Hz/W at which so many bits cost so many joules; ``computing`` is J per bit."""
    return math.log(2) / BANDWIDTH / (joules / bits - computing)


def scenario_of(run: Run, tmp_path: Path, *options: object) -> dict:
    ended = run("channels", "--count", 2, *options)
    assert ended.status == 0, ended.err
    return metrics_of(tmp_path / "runs/channels")["scenario"]


def test_a_time_limit_is_a_rate(run: Run, tmp_path: Path):
    found = scenario_of(run, tmp_path, "--time-max-s", 7)
    assert found["rate_min"] == pytest.approx(rate_for(PAPERS_BITS, 7))
    assert found["ee_min"] == Scenario().ee_min


def test_an_energy_limit_is_an_efficiency_after_the_computation(run: Run, tmp_path: Path):
    found = scenario_of(run, tmp_path, "--energy-max-j", 0.1, "--compute-energy-j-per-bit", 1e-8)
    assert found["ee_min"] == pytest.approx(efficiency_for(PAPERS_BITS, 0.1, 1e-8))
    assert found["rate_min"] == Scenario().rate_min


def test_both_limits_for_a_model_of_ones_own(run: Run, tmp_path: Path):
    options = ("--time-max-s", 2, "--energy-max-j", 0.05, "--model-bits", 5e5)
    found = scenario_of(run, tmp_path, *options)
    assert found["rate_min"] == pytest.approx(rate_for(5e5, 2))
    assert found["ee_min"] == pytest.approx(efficiency_for(5e5, 0.05))


def test_limits_and_bits_of_each_worker(run: Run, tmp_path: Path):
    options = ("--workers", 2, "--time-max-s", "2,4", "--model-bits", "4e5,5e5")
    found = scenario_of(run, tmp_path, *options, "--energy-max-j", 0.05)
    assert found["rate_min"] == pytest.approx([rate_for(4e5, 2), rate_for(5e5, 4)])
    assert found["ee_min"] == pytest.approx([efficiency_for(bits, 0.05) for bits in (4e5, 5e5)])


def test_bits_of_each_workers_weights(run: Run, tmp_path: Path):
    options = ("--workers", 2, "--bits-per-weight", "32,8", "--time-max-s", 7)
    weights = (PAPERS_BITS - 32) / 32
    found = scenario_of(run, tmp_path, *options)
    assert found["rate_min"] == pytest.approx([rate_for(b * weights + 32, 7) for b in (32, 8)])


def test_limits_override_the_thresholds_of_a_file(run: Run, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("rate_min: 0.2\nbandwidth_hz: 180.0e+3\n")
    found = scenario_of(run, tmp_path, "--scenario", "mine.yaml", "--time-max-s", 7)
    assert found["rate_min"] == pytest.approx(rate_for(PAPERS_BITS, 7))


def test_recorded_channels_say_how_many_workers_there_are(run: Run, tmp_path: Path, generator):
    write_channels(tmp_path / "h.h5", draw_channels(Scenario(workers=3), 20, generator))
    words = ("evaluate", "--channels", "h.h5", "--policies", "max", "--time-max-s")
    assert "time-max-s: 2 values" in refused(run(*words, "7,8"))
    assert run(*words, "7,8,9").status == 0
    found = metrics_of(tmp_path / "runs/evaluate")
    expected = [rate_for(PAPERS_BITS, seconds) for seconds in (7, 8, 9)]
    assert found["scenario"]["rate_min"] == pytest.approx(expected)


def blobs(workers: int) -> Task:
    """A task with another model than that of the paper."""
    return blob_task(LocalWork(batch_size=5, batches=2))


def test_federate_takes_the_bits_of_its_own_model(run: Run, tmp_path: Path):
    task = ("--task", f"{__name__}:blobs", "--workers", 3)
    words = ("federate", *task, "--rounds", 1, "--policies", "max")
    bits = 16 * sum(weights.numel() for weights in blobs(3).model().parameters()) + 32
    assert run(*words, "--bits-per-weight", 16, "--time-max-s", 3).status == 0
    metrics = metrics_of(tmp_path / "runs/federate")
    assert metrics["scenario"]["rate_min"] == pytest.approx(rate_for(bits, 3))
    assert metrics["policies"]["max"]["runs"][0]["sent_bytes"] == [round(3 * bits / 8)]
    own = ("--energy-max-j", 0.1, "--model-bits", 1e6, "--out", "own")
    assert run(*words, *own).status == 0
    found = metrics_of(tmp_path / "own")["scenario"]
    assert found["ee_min"] == pytest.approx(efficiency_for(1e6, 0.1))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--time-max-s", 7, "--rate-min", 0.7), "time-max-s and rate-min were both given"),
        (("--energy-max-j", 1, "--ee-min", 5), "energy-max-j and ee-min were both given"),
        (("--model-bits", 1e6), "model-bits: accepted only with time-max-s or energy-max-j"),
        (("--time-max-s", "7,8"), "time-max-s: 2 values; accepted: one, or one for each of the 8"),
        (("--energy-max-j", "1,2,3"), "energy-max-j: 3 values"),
        (("--time-max-s", 7, "--model-bits", "1e6,2e6"), "model-bits: 2 values"),
        (("--time-max-s", 0), "time_max_s: "),
        (("--time-max-s", "nan"), "time_max_s: "),
        (("--energy-max-j", "1,,2"), "energy-max-j: 2 values"),
        (("--model-bits", "inf"), "model_bits: "),
        (("--energy-max-j", 0.1, "--compute-energy-j-per-bit", 1e-6), "above 1.27235, the comp"),
        (("--time-max-s", 1e-6), "rate_min: Input should be less than or equal to 40"),
    ],
)
def test_what_cannot_be_is_refused(
    run: Run, tmp_path: Path, options: tuple[object, ...], sentence: str
):
    assert sentence in refused(run("channels", "--count", 2, *options))
    assert list(tmp_path.iterdir()) == []


def test_one_limit_and_the_other_threshold_go_together(run: Run, tmp_path: Path):
    found = scenario_of(run, tmp_path, "--time-max-s", 7, "--ee-min", 40)
    assert (found["rate_min"], found["ee_min"]) == (pytest.approx(rate_for(PAPERS_BITS, 7)), 40)


@pytest.mark.parametrize(
    "words",
    [
        ("--pmax-dbw", "-20,-23"),
        ("--pmax", "-20dBW,-23dBW"),
        ("--pmax", "10dBm,7dBm"),
        ("--pmax=-20,7dBm",),
    ],
)
def test_powers_per_worker_with_or_without_units(words, capsys):
    assert main(["evaluate", "--workers", "2", *words, "--print-config"]) == 0
    scenario = yaml.safe_load(capsys.readouterr().out)["scenario"]
    assert scenario["pmax_dbw"] == [-20, -23]
