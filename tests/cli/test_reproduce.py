from __future__ import annotations

from pathlib import Path

import pytest

from feduplink.experiments import EXPERIMENTS
from feduplink.storage.run_directory import read_metrics

from .conftest import Run, refused

QUICK = ("--quick", "--processes", 1)


@pytest.fixture(autouse=True)
def _without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDUPLINK_DATA", raising=False)


def test_an_unknown_figure_is_one_sentence_and_no_files(run: Run, tmp_path: Path):
    sentence = refused(run("reproduce", "arrivals", "figure-7", *QUICK))
    assert "figures: 'figure-7' is unknown; accepted: all, convergence, interference" in sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--processes=0", "--device=abacus", "--seed=-1"])
def test_options_out_of_range_are_one_sentence_and_no_files(run: Run, tmp_path: Path, option: str):
    refused(run("reproduce", "arrivals", "--quick", option))
    assert list(tmp_path.iterdir()) == []


def test_a_figure_without_its_data_is_refused(run: Run, tmp_path: Path):
    assert "'airquality' needs a data directory" in refused(run("reproduce", "airquality", *QUICK))
    assert list(tmp_path.iterdir()) == []


def test_figures_are_saved_and_the_page_is_named(run: Run, tmp_path: Path):
    ended = run("reproduce", "airquality", "noniid-data", *QUICK, "--seed", 3)
    assert ended.status == 0
    assert "airquality: not drawn. data: the set 'airquality' needs" in ended.out
    assert "warning: noniid-data: on the 5,000 digits" in ended.err
    header = next(line for line in ended.out.splitlines() if line.lstrip().startswith("figure "))
    assert header.strip().endswith("first look")
    assert "A first look" in ended.out
    page = tmp_path / "runs/reproduce/report.html"
    assert "runs/reproduce/report.html" in ended.out
    assert page.exists()
    metrics = read_metrics(page.parent / "noniid-data")
    assert metrics.provenance is not None
    assert metrics.provenance.command is not None
    assert metrics.provenance.command.startswith("feduplink reproduce ")
    assert metrics.seed == 3


def test_every_experiment_is_offered(run: Run, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        run("reproduce", "--help")
    text = " ".join(capsys.readouterr().out.replace("-\n", "-").split())
    assert all(name.split("-")[0] in text for name in EXPERIMENTS)
