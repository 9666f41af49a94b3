from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import TINY, Run, metrics_of, refused


@pytest.fixture
def compared(run: Run, tmp_path: Path) -> Path:
    """The directory of a comparison."""
    assert run("evaluate", *TINY, "--policies", "max,rand", "--out", "runs/compared").status == 0
    return tmp_path / "runs/compared"


def test_a_page_of_real_runs(run: Run, tmp_path: Path, compared: Path):
    words = ("--policies", "ideal,max", "--workers", 3, "--rounds", 2)
    assert run("federate", *words, "--out", "runs/federated").status == 0
    ended = run("report", "runs")
    assert ended.status == 0
    assert "2 runs in runs/report/report.html" in ended.out
    page = (tmp_path / "runs/report/report.html").read_text()
    assert page.count("<figure") == 4
    assert page.count("<table") == 3
    metrics = metrics_of(tmp_path / "runs/report")
    assert metrics["report"]["sections"] == [
        {
            "title": "Policies compared",
            "directory": "runs/compared",
            "figures": ["comparison", "power-histogram"],
        },
        {
            "title": "Federated learning of digits",
            "directory": "runs/federated",
            "figures": ["arrivals", "error"],
        },
    ]
    assert metrics["provenance"]["command"] == "feduplink report runs"


def test_a_report_is_made_anew_and_is_no_run(run: Run, tmp_path: Path, compared: Path):
    assert run("report", "runs").status == 0
    first = (tmp_path / "runs/report/report.html").read_bytes()
    assert run("report", "runs").status == 0
    assert (tmp_path / "runs/report/report.html").read_bytes() == first


def test_a_run_is_not_overwritten(run: Run, compared: Path):
    before = (compared / "metrics.json").read_bytes()
    assert "contains a run" in refused(run("report", compared, "--out", compared))
    assert (compared / "metrics.json").read_bytes() == before
    assert not (compared / "report.html").exists()


def test_truncated_metrics_are_one_sentence_and_no_files(run: Run, tmp_path: Path, compared: Path):
    file = compared / "metrics.json"
    whole = file.read_bytes()
    for kept in (0, 1, len(whole) // 2, len(whole) - 3):
        file.write_bytes(whole[:kept])
        assert "runs/compared/metrics.json" in refused(run("report", "runs", "--out", "page"))
        assert not (tmp_path / "page").exists()


def test_foreign_metrics_are_one_sentence(run: Run, tmp_path: Path, compared: Path):
    (compared / "metrics.json").write_text('{"accuracy": 0.9}')
    assert "accepted: a file that feduplink wrote" in refused(run("report", "runs"))
    assert not (tmp_path / "runs/report").exists()


def test_there_must_be_runs(run: Run, tmp_path: Path):
    assert "DIR" in refused(run("report"))
    assert "nowhere is not a directory" in refused(run("report", "nowhere"))
    (tmp_path / "empty").mkdir()
    assert "no metrics.json of a run is in empty" in refused(run("report", "empty"))
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
