from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import pytest

from feduplink import InputError
from feduplink.experiments.context import ExperimentContext
from feduplink.progress import report_to
from recorder import Recorder

from .tiny import TINY

VERSIONS = (1, 2)


def _pair(context: ExperimentContext, name: str, seed: int) -> tuple[str, int]:
    return name, seed


def _square(_context: ExperimentContext, number: int) -> tuple[int, int]:
    """Finish the first call last."""
    time.sleep(0.2 if number == 0 else 0.0)
    return number**2, os.getpid()


def _leave_a_file(context: ExperimentContext, number: int) -> None:
    if number == 0:
        raise InputError("data: there are none.")
    time.sleep(0.3)
    (context.directory / str(number)).touch()


def test_every_identity_has_its_own_cache_path(tmp_path: Path):
    context = ExperimentContext(tmp_path, TINY)
    place = context.cache_path("policies", VERSIONS, "pdg", {"a": 1, "b": 2}, 0)
    assert place.parent == tmp_path / TINY.label / "policies"
    assert place.suffix == ""
    others = [
        context.cache_path("policies", VERSIONS, "pdg", {"a": 1, "b": 2}, 1),
        context.cache_path("policies", VERSIONS, "pdg", {"a": 2, "b": 2}, 0),
        context.cache_path("policies", VERSIONS, "pdm", {"a": 1, "b": 2}, 0),
        context.cache_path("settings", VERSIONS, "pdg", {"a": 1, "b": 2}, 0),
        ExperimentContext(tmp_path, dataclasses.replace(TINY, epochs=3)).cache_path(
            "policies", VERSIONS, "pdg", {"a": 1, "b": 2}, 0
        ),
        context.cache_path("policies", (1, 3), "pdg", {"a": 1, "b": 2}, 0),
    ]
    assert len({place, *others}) == 7


def test_the_cache_path_does_not_depend_on_device_or_processes(tmp_path: Path):
    place = ExperimentContext(tmp_path, TINY).cache_path(
        "policies", VERSIONS, "pdg", {"a": 1, "b": 2}, 0
    )
    again = ExperimentContext(tmp_path, TINY, seed=3, device="cuda", processes=4)
    assert again.cache_path("policies", VERSIONS, "pdg", {"b": 2, "a": 1}, 0) == place


def test_seeds_follow_the_first(tmp_path: Path):
    context = ExperimentContext(tmp_path, dataclasses.replace(TINY, seeds=3), seed=5)
    assert list(context.seeds) == [5, 6, 7]


def test_map_in_this_process(tmp_path: Path):
    recorder, context = Recorder(), ExperimentContext(tmp_path, TINY)
    with report_to(recorder):
        done = context.map(_square, [(3,), (2,)], "numbers")
    assert done == [(9, os.getpid()), (4, os.getpid())]
    assert recorder.of("numbers") == ["begin", 1, 2, "end"]
    assert context.map(_square, [], "numbers") == []


def test_seeds_are_mapped_setting_by_setting(tmp_path: Path):
    context = ExperimentContext(tmp_path, dataclasses.replace(TINY, seeds=2), seed=5)
    done = context.map_seeds(_pair, [("a",), ("b",)], "settings")
    assert done == [[("a", 5), ("a", 6)], [("b", 5), ("b", 6)]]


def test_map_in_other_processes_keeps_the_order(tmp_path: Path):
    recorder, context = Recorder(), ExperimentContext(tmp_path, TINY, processes=2)
    with report_to(recorder):
        done = context.map(_square, [(number,) for number in range(5)], "numbers")
    assert [square for square, _ in done] == [0, 1, 4, 9, 16]
    assert os.getpid() not in {process for _, process in done}
    assert recorder.of("numbers") == ["begin", 1, 2, 3, 4, 5, "end"]


@pytest.mark.slow
def test_an_error_in_another_process_is_raised_here_and_ends_the_work(tmp_path: Path):
    context = ExperimentContext(tmp_path, TINY, processes=2)
    with pytest.raises(InputError, match="data: there are none"):
        context.map(_leave_a_file, [(number,) for number in range(12)], "numbers")
    assert len(list(tmp_path.iterdir())) < 11
