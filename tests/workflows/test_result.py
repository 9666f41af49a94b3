from __future__ import annotations

from pathlib import Path

import pytest

import feduplink as fu
from feduplink import InputError, Scenario
from feduplink.workflows.sweeps import Sweep, SweptRow

SCENARIO = Scenario(workers=2)


def evaluation():
    return fu.evaluate(SCENARIO, ["max", "openloop"], channels_per_split=30, optimum=True)


def optimum():
    return fu.find_optimum(SCENARIO, channels_per_split=8)


def training():
    return fu.train(SCENARIO, "pdm", epochs=2, channels_per_split=30)


def schedule_training():
    return fu.train(SCENARIO, "learned-schedule", steps=100, batch_size=2)


def front():
    return fu.make_schedules(SCENARIO, channels_per_split=3, kappa=[0, 10], policies=["max"])


def federation():
    return fu.federate(SCENARIO, "digits", ["ideal", "max"], rounds=2)


def swept():
    return fu.sweep(
        fu.evaluate,
        SCENARIO,
        ["max"],
        over={"interference": [1, 2]},
        channels_per_split=20,
        processes=1,
    )


@pytest.mark.parametrize(
    "make", [evaluation, optimum, training, schedule_training, front, federation, swept]
)
def test_a_saved_result_is_read_back(make, tmp_path: Path):
    result = make()
    result.save(tmp_path)
    again = fu.load_result(tmp_path)
    assert str(again) == str(result)
    assert again.metrics() == result.metrics()
    assert list(again.records()) == list(result.records()) or "nan" in str(list(again.records()))
    assert again.plot().figure is not None


def test_a_directory_without_a_result_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"^result: .* does not contain a result; accepted"):
        fu.load_result(tmp_path)


def test_the_command_line_and_python_give_the_same_metrics(tmp_path: Path, monkeypatch):
    """Bit for bit, without the provenance."""
    import json

    from feduplink.cli.command_line import main

    monkeypatch.chdir(tmp_path)
    words = ["evaluate", "--policies", "max,openloop,pdx", "--workers", "3", "--optimum"]
    assert main([*words, "--channels-per-split", "40", "--seed", "2", "--out", "cli"]) == 0
    result = fu.evaluate(
        Scenario(workers=3),
        ["max", "openloop", "pdx"],
        channels_per_split=40,
        seed=2,
        optimum=True,
    )
    result.save("python")
    written = [json.loads(Path(name, "metrics.json").read_text()) for name in ("cli", "python")]
    for metrics in written:
        del metrics["provenance"], metrics["optimum"]["seconds"]
    assert written[0] == written[1]


def test_a_sweep_marks_infeasible_values_and_says_where_they_are():
    measured = {
        ("max", -30): {"objective": 0.9, "feasible": 0.0},
        ("max", -20): {"objective": 0.7, "feasible": 1.0},
        ("pdx", -30): {"objective": 0.8},
        ("pdx", -20): {"objective": 0.95, "feasible": 1.0},
        ("quiet", -30): {"objective": 0.0, "feasible": 0.0},
        ("quiet", -20): {"objective": 0.0, "feasible": 0.0},
        ("optimum", -30): {"objective": 0.85},
        ("optimum", -20): {"objective": 0.96},
    }
    rows = tuple(
        SweptRow((value,), 0, policy, measures) for (policy, value), measures in measured.items()
    )
    table = Sweep("evaluate", ("pmax_dbw",), rows, "objective", fu.Scenario()).table()
    assert table.title == "objective against Pmax, dBm"
    assert table.columns == ("policy", "0", "10", "verdict")
    assert [list(row) for row in table.rows] == [
        ["max", "[0.9]", "0.7", "infeasible at 0"],
        ["pdx", "0.8", "0.95", "inconclusive at 0"],
        ["quiet", "[0]", "[0]", "infeasible"],
        ["optimum", "0.85", "0.96", "feasible"],
    ]
    assert table.remarks == ["[ ]: infeasible, not to be compared with feasible values"]
