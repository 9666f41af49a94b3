from __future__ import annotations

import csv
import dataclasses
import math
from pathlib import Path

import pytest

from feduplink import InputError, Scenario
from feduplink.experiments import federations
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import (
    ALL,
    ON_REVIEWS,
    PAPERS,
    Comparison,
    Federations,
    federation,
    image_set,
    image_task,
)
from feduplink.federated.data import data_set
from feduplink.federated.data.partition import weighed_by_noise
from feduplink.progress import report_to
from recorder import Recorder, Stop, StopAt

from .made import federations as made
from .made import history

ROUNDS = "federated learning of digits"
#: Needs no policy that takes time.
CHEAP = Comparison("images", 2, ("ideal", "rand", "rand:unselected"))


def _own(context: ExperimentContext, directory: Path, rounds: int = 3) -> ExperimentContext:
    scale = dataclasses.replace(context.scale, rounds=rounds)
    return dataclasses.replace(context, directory=directory, scale=scale)


def _files(directory: Path) -> list[str]:
    return sorted(path.suffix for path in directory.rglob("*") if path.is_file())


def test_a_comparison_is_run_once(
    context: ExperimentContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own, recorder = _own(context, tmp_path), Recorder()
    with report_to(recorder):
        first = federation(own, CHEAP)
    assert recorder.of(ROUNDS) == ["begin", 1, 2, 3, "end"]
    assert {name: len(runs) for name, runs in first.policies.items()} == {
        "ideal": 2,
        "rand": 2,
        "rand:unselected": 2,
    }
    assert _files(tmp_path) == [".json"]
    monkeypatch.setattr(federations, "federate", None)
    assert federation(own, CHEAP) == first
    with pytest.raises(TypeError):
        federation(own, dataclasses.replace(CHEAP, runs=1))


def test_the_published_average_is_another_one(context: ExperimentContext, tmp_path: Path):
    own = _own(context, tmp_path)
    exact = federation(own, CHEAP)
    published = federation(own, dataclasses.replace(CHEAP, aggregation="published"))
    for one, other in zip(exact.policies["ideal"], published.policies["ideal"], strict=True):
        assert one.arrivals == other.arrivals
        assert one.error != other.error


def test_an_interrupted_comparison_goes_on_to_the_same_end(
    context: ExperimentContext, tmp_path: Path
):
    recorder = Recorder()
    undisturbed = federation(_own(context, tmp_path / "a", 12), CHEAP)
    with pytest.raises(Stop), report_to(StopAt(11, "rounds")):
        federation(_own(context, tmp_path / "b", 12), CHEAP)
    assert _files(tmp_path / "b") == [".safetensors"]
    with report_to(recorder):
        assert federation(_own(context, tmp_path / "b", 12), CHEAP) == undisturbed
    assert recorder.of(ROUNDS) == ["begin", 11, 12, "end"]
    assert _files(tmp_path / "b") == [".json"]


def test_digits_stand_in_for_mnist(context: ExperimentContext):
    assert image_set(context) == "digits"
    assert image_task(context, "iid").name == "digits"


def test_mnist_where_it_is_at_hand(context: ExperimentContext, real_data: Path):
    own = dataclasses.replace(context, data=real_data)
    assert image_task(own, "iid").name == "mnist"


def test_damaged_mnist_is_not_replaced(context: ExperimentContext, tmp_path: Path):
    for file in data_set("mnist").files:
        (tmp_path / file.path).parent.mkdir(exist_ok=True)
        (tmp_path / file.path).write_bytes(b"damaged")
    with pytest.raises(InputError, match="not a complete idx file"):
        image_task(dataclasses.replace(context, data=tmp_path), "iid")


def test_the_papers_policies_come_in_both_readings_of_the_baselines(
    context: ExperimentContext, tmp_path: Path
):
    policies = ("rand", "rand:unselected", "orth", "orth:unselected")
    assert set(policies) < set(PAPERS) < set(ALL)
    assert set(ON_REVIEWS) < set(ALL)
    own = dataclasses.replace(context, directory=tmp_path)
    found = federation(own, Comparison("images", 2, policies)).policies
    assert all(run.transmitting == (8, 8, 8) for run in found["rand:unselected"])
    for name in ("rand", "orth"):
        for selected, unselected in zip(found[name], found[f"{name}:unselected"], strict=True):
            assert sum(selected.transmitting) < sum(unselected.transmitting)


def test_orthogonal_access_loses_fewer_than_full_power(context: ExperimentContext, tmp_path: Path):
    own = dataclasses.replace(context, directory=tmp_path)
    found = federation(own, Comparison("images", 2, ("tdma", "ofdma", "max")))
    for access in ("tdma", "ofdma"):
        for alone, together in zip(found.policies[access], found.policies["max"], strict=True):
            assert alone.transmitting == together.transmitting == (8, 8, 8)
            assert sum(alone.arrivals) > sum(together.arrivals)
            assert all(0 < seconds < math.inf for seconds in alone.airtime_s if seconds is not None)


def test_noisy_images_are_weighed_by_quality(
    context: ExperimentContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen = []

    def federate(_task, _policies, scenario, *_args, checkpoint: Path, **_kwargs):
        seen.append(scenario)
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.touch()
        return history({"ideal": 0.5})

    monkeypatch.setattr(federations, "federate", federate)
    own = dataclasses.replace(context, directory=tmp_path)
    for partition in ("gaussian", "dirichlet"):
        federation(own, Comparison("images", 1, ("ideal", "max"), partition))
    assert seen == [weighed_by_noise(Scenario()), Scenario()]


def test_a_model_that_diverged_survives_json():
    result = made(exact_average={"rand": math.inf, "orth": math.nan, "pdg": 0.25})
    again = Federations.model_validate_json(result.model_dump_json())
    assert again.final("exact average", "rand") == math.inf
    assert math.isnan(again.final("exact average", "orth"))
    assert again.in_words("exact average", ("pdg", "rand")) == "pdg 0.25, rand inf"


def test_csv_has_a_row_per_round():
    result = Federations(comparisons={"a": history({"ideal": 0.5, "max": 0.25}, {"max": (2, 3)})})
    rows = list(csv.DictReader(result.to_csv().splitlines()))
    assert len(rows) == 2 * 2 * 3
    assert rows[0] == {
        "comparison": "a",
        "task": "digits",
        "policy": "ideal",
        "run": "0",
        "round": "1",
        "error": "0.5",
        "arrivals": "2",
        "transmitting": "3",
        "airtime_s": "",
        "energy_j": "",
    }
    assert list(rows[-1].values()) == ["a", "digits", "max", "1", "3", "0.25", "2", "3", "2", "3"]
