from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from experiments.tiny import TINY as TINY_SCALE
from feduplink import experiments
from feduplink.cli import reproduce
from feduplink.experiments import EXPERIMENTS, arrivals
from feduplink.experiments.arrivals import Arrivals
from feduplink.federated.data import data_set
from feduplink.storage.run_directory import RunMetrics, read_metrics

from .conftest import Run, metrics_of, refused

QUICK = ("--quick", "--processes", 1)


@pytest.fixture(autouse=True)
def _tiny_and_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "QUICK", TINY_SCALE)
    monkeypatch.delenv("FEDUPLINK_DATA", raising=False)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds that ``arrivals`` was run with; it takes no time."""
    seeds: list[int] = []
    others = ("pdm", "rand", "orth", "rand:unselected", "orth:unselected")

    def made(context: experiments.ExperimentContext) -> Arrivals:
        seeds.append(context.seed)
        return Arrivals(arrivals={"pdg": [[7, 8]] * 2, **{name: [[0, 5]] * 2 for name in others}})

    monkeypatch.setattr(arrivals, "run", made)
    return seeds


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


def test_two_figures_without_their_data_are_refused_too(run: Run, tmp_path: Path):
    ended = run("reproduce", "airquality", "imdb", *QUICK)
    assert ended.status == 2
    assert "'imdb' needs a data directory" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_figure_without_its_data_is_skipped_among_others(
    run: Run, tmp_path: Path, runs: list[int]
):
    ended = run("reproduce", "airquality", "arrivals", *QUICK)
    assert ended.status == 0
    assert "airquality: not drawn. data: the set 'airquality' needs" in ended.out
    root = tmp_path / "runs/reproduce"
    assert sorted(path.name for path in root.iterdir()) == [
        "arrivals",
        "kept",
        "metrics.json",
        "report.html",
    ]


def test_figures_claims_and_page(run: Run, tmp_path: Path, runs: list[int]):
    """In two steps: a figure of before stays on the page, which has the order of the paper."""
    assert run("reproduce", "noniid-data", *QUICK, "--seed", 3).status == 0
    ended = run("reproduce", "arrivals", "arrivals", *QUICK, "--seed", 3)
    assert ended.status == 0
    root = tmp_path / "runs/reproduce"
    titles = {
        "arrivals": "Arrivals",
        "noniid-data": "Data that differ between workers (not mnist)",
    }
    figures = {name: {"title": title} for name, title in titles.items()}
    assert list(metrics_of(root)["figures"].items()) == list(figures.items())
    for directory in (root, *(root / name for name in titles)):
        metrics = read_metrics(directory)
        assert metrics.title == titles.get(directory.name, "The paper's figures")
        assert metrics.seed == 3
        assert metrics.settings == {"scale": "tiny"}
        assert (metrics.runs_s is None) == (directory == root)
        assert metrics.provenance is not None
        assert metrics.provenance.command is not None
        assert metrics.provenance.command.startswith("feduplink reproduce ")
        assert set(metrics_of(directory)) <= set(RunMetrics.model_fields)
    metrics = read_metrics(root / "arrivals")
    assert metrics.caption == EXPERIMENTS["arrivals"].CAPTION
    assert [claim.verdict for claim in metrics.claims] == ["holds"] * 4
    page = (root / "report.html").read_text()
    assert page.count("<figure") == 2
    headings = [page.index(f"<h2>{title}</h2>") for title in titles.values()]
    assert headings == sorted(headings)
    for claim in metrics.claims:
        # Among all claims, and with its figure.
        assert page.count(f"<td>{claim.claim}</td>") == 2
        assert claim.claim in ended.out


def test_other_data_than_the_papers_is_said_everywhere_and_decides_nothing(
    run: Run, tmp_path: Path
):
    ended = run("reproduce", "aggregation", "noniid-data", *QUICK)
    assert ended.status == 0
    other = "the 5,000 digits that come with the installation, not MNIST"
    assert f"warning: aggregation, noniid-data: on {other}, which leaves" in ended.err
    root = tmp_path / "runs/reproduce"
    for name in ("aggregation", "noniid-data"):
        metrics = read_metrics(root / name)
        assert metrics.data == "digits"
        assert metrics.substitution == other
        assert metrics.title == f"{EXPERIMENTS[name].TITLE} (not mnist)"
        assert metrics.caption == f"Data: {other}. {EXPERIMENTS[name].CAPTION}"
    [claim] = read_metrics(root / "aggregation").claims
    assert claim.verdict == "undecided"
    assert claim.measured.startswith(f"on {other}: exact average: ")
    page = (root / "report.html").read_text()
    assert page.count(f"Data: {other}. ") >= 2
    assert ">first look: undecided</span>" in page


def test_with_the_papers_data_nothing_is_substituted(run: Run, tmp_path: Path, real_data: Path):
    ended = run("reproduce", "noniid-data", *QUICK, "--data", real_data)
    assert "warning" not in ended.err
    metrics = read_metrics(tmp_path / "runs/reproduce/noniid-data")
    assert (metrics.data, metrics.substitution) == ("mnist", None)
    assert metrics.title == EXPERIMENTS["noniid-data"].TITLE


@pytest.mark.parametrize("quick", [True, False])
def test_verdicts_of_a_first_look_are_not_shown_as_verdicts(
    run: Run, tmp_path: Path, runs: list[int], quick: bool
):
    ended = run("reproduce", "arrivals", "--processes", 1, *(["--quick"] if quick else []))
    root = tmp_path / "runs/reproduce"
    header = next(line for line in ended.out.splitlines() if line.lstrip().startswith("figure "))
    assert header.strip().endswith("first look" if quick else "verdict")
    assert [claim.first_look for claim in read_metrics(root / "arrivals").claims] == [quick] * 4
    page = (root / "report.html").read_text()
    assert ('<span class="verdict first-look">first look: holds</span>' in page) == quick
    assert ('<span class="verdict holds">' in page) != quick


def test_a_page_is_of_one_seed_and_says_that_quick_is_a_first_look(
    run: Run, tmp_path: Path, runs: list[int]
):
    assert run("reproduce", "noniid-data", *QUICK, "--seed", 3).status == 0
    ended = run("reproduce", "arrivals", *QUICK, "--seed", 4)
    root = tmp_path / "runs/reproduce"
    assert list(metrics_of(root)["figures"]) == ["arrivals"]
    page = (root / "report.html").read_text()
    assert page.count("<figure") == 1
    assert "A first look" in page
    assert "A first look" in ended.out


def test_a_second_time_figures_are_only_drawn(run: Run, tmp_path: Path, runs: list[int]):
    assert run("reproduce", "arrivals", *QUICK).status == 0
    drawn = tmp_path / "runs/reproduce/arrivals"
    first = {path.name: path.read_bytes() for path in drawn.iterdir() if path.suffix != ".json"}
    assert set(first) == {"arrivals.png", "arrivals.svg", "arrivals.csv"}
    shutil.rmtree(drawn)
    assert run("reproduce", "arrivals", *QUICK).status == 0
    assert {name: (drawn / name).read_bytes() for name in first} == first
    assert runs == [0]
    assert run("reproduce", "arrivals", *QUICK, "--seed", 1).status == 0
    assert runs == [0, 1]


@pytest.mark.parametrize(("data", "expected"), [("mnist", 2), (None, 1)])
def test_figures_of_digits_are_run_again_once_mnist_is_there(
    run: Run,
    tmp_path: Path,
    runs: list[int],
    monkeypatch: pytest.MonkeyPatch,
    data: str | None,
    expected: int,
):
    monkeypatch.setattr(arrivals, "DATA", data)
    assert run("reproduce", "arrivals", *QUICK).status == 0
    for file in data_set("mnist").files:
        (tmp_path / file.path).parent.mkdir(exist_ok=True)
        (tmp_path / file.path).touch()
    for _ in range(2):
        assert run("reproduce", "arrivals", *QUICK, "--data", tmp_path).status == 0
        assert len(runs) == expected


@pytest.mark.parametrize(
    ("module", "version"),
    [
        (arrivals, "VERSION"),
        (reproduce, "POLICIES_VERSION"),
        (reproduce, "SETTINGS_VERSION"),
        (reproduce, "FEDERATIONS_VERSION"),
    ],
)
def test_a_figure_is_run_again_once_a_version_is_increased(
    run: Run, runs: list[int], monkeypatch: pytest.MonkeyPatch, module: ModuleType, version: str
):
    assert run("reproduce", "arrivals", *QUICK).status == 0
    monkeypatch.setattr(module, version, getattr(module, version) + 1)
    for _ in range(2):
        assert run("reproduce", "arrivals", *QUICK).status == 0
        assert len(runs) == 2


def test_every_experiment_is_offered(run: Run, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        run("reproduce", "--help")
    text = " ".join(capsys.readouterr().out.replace("-\n", "-").split())
    assert all(name.split("-")[0] in text for name in EXPERIMENTS)


@pytest.mark.slow
def test_all_figures_quickly(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real_data):
    monkeypatch.setattr(reproduce, "QUICK", experiments.QUICK)
    root = tmp_path / "runs"
    words = ("--quick", "--processes", 2, "--data", real_data, "--out", root)
    ended = run("reproduce", "all", *words)
    assert ended.status == 0, ended.err
    assert "not drawn" not in ended.out
    assert list(metrics_of(root)["figures"]) == list(EXPERIMENTS)
    for name in EXPERIMENTS:
        assert (root / name / f"{name}.png").stat().st_size > 10_000
    assert (root / "report.html").read_text().count("<figure") == len(EXPERIMENTS)
