from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from .conftest import TINY, Run, metrics_of, refused

EVALUATE = ("evaluate", "--policies", "max,rand", *TINY)


def sweep(run: Run, *words: object, command: tuple[object, ...] = EVALUATE):
    return run("sweep", "--processes", 1, *words, "--", *command)


def rows_of(directory: Path) -> list[dict[str, str]]:
    with (directory / "sweep.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_two_options_are_all_their_pairs(run: Run, tmp_path: Path):
    vary = ("--vary", "interference", 1, 4, "--vary", "pmax-dbw", -30, -20)
    ended = sweep(run, *vary)
    assert ended.status == 0, ended.err
    out = tmp_path / "runs/sweep"
    rows = rows_of(out)
    assert len(rows) == 4 * 2
    for row in rows:
        name = f"interference={row['interference']},pmax-dbw={row['pmax_dbw']}"
        run_metrics = metrics_of(out / name)
        assert run_metrics["scenario"]["interference"] == float(row["interference"])
        assert run_metrics["scenario"]["pmax_dbw"] == float(row["pmax_dbw"])
        objective = run_metrics["policies"][row["policy"]]["objective"]
        assert float(row["objective"]) == pytest.approx(objective, rel=1e-5)
    assert metrics_of(out)["varied"] == {"interference": ["1", "4"], "pmax_dbw": ["-30", "-20"]}
    assert (out / "sweep.png").stat().st_size > 1000
    assert "objective against interference" in ended.out
    assert "max Pmax 0 dBm" in ended.out


def test_finished_runs_are_not_repeated(run: Run, tmp_path: Path):
    def written() -> dict[str, int]:
        files = (tmp_path / "runs/sweep").glob("*/metrics.json")
        return {path.parent.name: path.stat().st_mtime_ns for path in files}

    assert sweep(run, "--vary", "interference", 1, 2).status == 0
    first = written()
    assert sweep(run, "--vary", "interference", 1, 2, 3).status == 0
    second = written()
    assert {name for name in second if second[name] != first.get(name)} == {"interference=3"}
    # Other options make other runs.
    assert sweep(run, "--vary", "interference", 1, command=(*EVALUATE, "--seed", 1)).status == 0
    third = written()
    assert {name for name in third if third[name] != second[name]} == {"interference=1"}


def test_names_are_values_too(run: Run, tmp_path: Path):
    vary = ("--vary", "channel-model", "wbs", "hata-urban", "--figure", "participation")
    ended = sweep(run, *vary, "--out", "here")
    assert ended.status == 0, ended.err
    assert "participation against channel model" in ended.out
    assert metrics_of(tmp_path / "here")["figure"] == "participation"


def test_the_seed_is_an_option_like_others(run: Run, tmp_path: Path):
    assert sweep(run, "--vary", "seed", 0, 1).status == 0
    rows = [row for row in rows_of(tmp_path / "runs/sweep") if row["policy"] == "max"]
    assert rows[0]["objective"] != rows[1]["objective"]
    assert metrics_of(tmp_path / "runs/sweep/seed=1")["seed"] == 1


def test_commands_without_policies_have_figures(run: Run, tmp_path: Path):
    ended = sweep(run, "--vary", "count", 2, 3, command=("channels", "--workers", 2))
    assert ended.status == 0, ended.err
    assert [row["count"] for row in rows_of(tmp_path / "runs/sweep")] == ["2", "3"]


@pytest.mark.parametrize(
    ("vary", "command", "words"),
    [
        (("interferance", 1), EVALUATE, ("--interferance", "did you mean --interference?")),
        (("interference", 1, 0), EVALUATE, ("interference", "greater than 0")),
        (("interference", 1, 1), EVALUATE, ("vary", "different values")),
        (("interference",), EVALUATE, ("vary", "one or more")),
        (("seed", 1), ("report", "here"), ("report has no scenario to vary",)),
        (("seed", 1), ("evalute",), ("did you mean evaluate?",)),
        (("seed", 1), (*EVALUATE, "--out", "here"), ("--out", "after the --")),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_is_run(
    run: Run,
    tmp_path: Path,
    vary: tuple[object, ...],
    command: tuple[object, ...],
    words: tuple[str, ...],
):
    sentence = refused(sweep(run, "--vary", *vary, command=command))
    for word in words:
        assert word in sentence
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_refused_says_so_and_leaves_the_others(run: Run, tmp_path: Path):
    vary = ("--vary", "policies", "max", "nowhere/policy")
    ended = sweep(run, *vary, command=("evaluate", *TINY))
    assert ended.status == 2
    assert "sweep: policies=nowhere/policy: policy: 'nowhere/policy' is" in ended.err
    assert metrics_of(tmp_path / "runs/sweep/policies=max")["policies"].keys() == {"max"}


def test_an_unknown_figure_names_those_that_there_are(run: Run):
    assert "did you mean objective?" in refused(
        sweep(run, "--vary", "seed", 0, "--figure", "objectives")
    )


@pytest.mark.slow
def test_processes_make_the_same_figures(run: Run, tmp_path: Path):
    vary = ("--vary", "interference", 1, 2)
    assert sweep(run, *vary, "--out", "one").status == 0
    assert run("sweep", "--processes", 2, *vary, "--out", "two", "--", *EVALUATE).status == 0
    one, two = (tmp_path / name / "sweep.csv" for name in ("one", "two"))
    assert one.read_text() == two.read_text()
    assert json.loads((tmp_path / "two/metrics.json").read_text())["figure"] == "objective"
