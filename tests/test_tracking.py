from __future__ import annotations

import csv
import math
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from feduplink import InputError
from feduplink.progress import Callback, Step, Work, report_to, track
from feduplink.tracking import CsvLog, TensorBoardLog
from feduplink.training import Epoch


def epoch(number: int) -> Epoch:
    return Epoch(
        number=number,
        objective=0.5 + number / 16,  # exact in single precision
        participation=0.75,
        violation=0.25,
        feasible=False,
        constraints={
            "rate": (math.nan, 0.625),  # the first worker never transmits
            "energy_efficiency": (math.nan, 40.0),
            "power": (0.0, 0.0078125),
        },
        worst={"rate_min": 0.625, "energy_efficiency_min": 40.0, "power_max": 0.0078125},
    )


def watch(log: Callback, first: int, last: int) -> None:
    """A run that resumes after epoch ``first`` − 1 and ends with epoch ``last``."""
    work = Work("training", 10, "epochs", [advance(n) for n in range(first)])
    log.on_begin(work)
    for number in range(first, last + 1):
        log.on_step(work, advance(number))
    log.on_end(work)


def advance(number: int) -> Step:
    return Step(number + 1, {}, epoch(number))


def test_csv_has_every_epoch_once_also_after_a_resume(tmp_path):
    path = tmp_path / "run" / "log.csv"
    watch(CsvLog(path), 0, 4)
    watch(CsvLog(path), 3, 6)  # the checkpoint was older than the last row
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == list(range(1, 8))
    assert float(rows[4]["objective"]) == 0.75
    assert rows[0]["feasible"] == "False"
    assert [rows[0][f"rate_{i}"] for i in (1, 2)] == ["nan", "0.625"]
    assert [rows[0][f"energy_efficiency_{i}"] for i in (1, 2)] == ["nan", "40"]
    assert [rows[0][f"power_{i}"] for i in (1, 2)] == ["0", "0.0078125"]


def test_csv_of_any_work_has_its_figures(tmp_path):
    """Works of one command may have different figures."""
    path = tmp_path / "log.csv"
    with report_to(CsvLog(path)):
        with track("dual problem", None, "evaluations") as progress:
            progress.advance(1, {"value": 0.98765432})
        with track("certificate", 10, "boxes") as progress:
            progress.advance(5, {"gap": 0.5})
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"evaluations": "1", "value": "0.987654", "boxes": "", "gap": ""},
        {"evaluations": "", "value": "", "boxes": "5", "gap": "0.5"},
    ]


def test_tensorboard_of_any_work_has_its_figures(tmp_path):
    with track("certificate", 10, "boxes", [TensorBoardLog(tmp_path)]) as progress:
        progress.advance(5, {"gap": 0.5})
    events = EventAccumulator(str(tmp_path)).Reload()
    (event,) = events.Scalars("certificate/gap")
    assert (event.step, event.value) == (5, 0.5)


def test_a_missing_tensorboard_is_one_sentence_with_the_install_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(InputError, match=r"tensorboard is not installed.*feduplink\[track\]"):
        TensorBoardLog(tmp_path)


def test_tensorboard_has_every_epoch_once_also_after_a_resume(tmp_path):
    watch(TensorBoardLog(tmp_path), 0, 4)
    watch(TensorBoardLog(tmp_path), 3, 6)
    events = EventAccumulator(str(tmp_path)).Reload()

    def series(name: str) -> dict[int, float]:
        scalars = events.Scalars(f"validation/{name}")
        assert len({event.step for event in scalars}) == len(scalars)
        return {event.step: event.value for event in scalars}

    assert series("objective") == {n + 1: 0.5 + n / 16 for n in range(7)}
    assert set(series("participation").values()) == {0.75}
    assert set(series("violation").values()) == {0.25}
    assert set(series("rate_min").values()) == {0.625}
    assert set(series("energy_efficiency_min").values()) == {40.0}
    assert set(series("power_max").values()) == {0.0078125}
