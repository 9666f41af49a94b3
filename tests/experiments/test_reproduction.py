from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from feduplink import InputError
from feduplink.experiments import EXPERIMENTS
from feduplink.experiments.arrivals import Arrivals, ArrivalsResult
from feduplink.experiments.context import FULL, QUICK, ExperimentContext
from feduplink.experiments.reproduction import reproduce, run_experiments
from feduplink.federated.data import data_set
from feduplink.storage.run_directory import RunMetrics, read_metrics
from feduplink.workflows.options import options_of

from .tiny import TINY

OTHERS = ("pdm", "rand", "orth", "rand:unselected", "orth:unselected")
SUBSTITUTION = "the 5,000 digits of the installation, not MNIST"


@dataclasses.dataclass(frozen=True)
class MadeUp(Arrivals):
    """Takes no time and remembers the seeds that it was run with."""

    seeds: ClassVar[list[int]] = []

    def run(self, context: ExperimentContext) -> ArrivalsResult:
        self.seeds.append(context.seed)
        arrivals = {"pdg": [[7, 8]] * 2, **{name: [[0, 5]] * 2 for name in OTHERS}}
        return ArrivalsResult(arrivals=arrivals)


class OnMnist(MadeUp):
    data = "mnist"


class NewVersion(MadeUp):
    version = 2


@pytest.fixture(autouse=True)
def seeds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    monkeypatch.delenv("FEDUPLINK_DATA", raising=False)
    MadeUp.seeds.clear()
    yield MadeUp.seeds
    MadeUp.seeds.clear()


@pytest.fixture
def tiny(tmp_path: Path) -> ExperimentContext:
    return ExperimentContext(tmp_path / "kept", TINY)


def test_an_unknown_figure_is_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(InputError, match="'figure-7' is unknown; accepted: all, convergence"):
        reproduce(["arrivals", "figure-7"], quick=True, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_device_is_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(InputError, match="device: 'abacus'"):
        reproduce(["arrivals"], quick=True, device="abacus", out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_figures_whose_data_are_all_missing_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="'imdb' needs a data directory"):
        reproduce(["airquality", "imdb"], quick=True, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_figure_whose_data_are_missing_is_skipped_among_others(tiny: ExperimentContext):
    out = tiny.directory.parent
    found = run_experiments([EXPERIMENTS["airquality"], MadeUp()], tiny, out)
    assert list(found.figures) == ["arrivals"]
    assert "the set 'airquality' needs" in found.skipped["airquality"]
    assert sorted(path.name for path in out.iterdir()) == [
        "arrivals",
        "kept",
        "metrics.json",
        "report.html",
    ]


def test_without_a_directory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="undecided"):
        found = reproduce(["noniid-data", "noniid-data"], quick=True, processes=1)
    assert list(found.figures) == ["noniid-data"]
    assert found.context.scale == QUICK
    assert list(tmp_path.iterdir()) == []
    found.save(tmp_path / "saved")
    assert (tmp_path / "saved/noniid-data/noniid-data.png").exists()
    assert (tmp_path / "saved/report.html").exists()


def test_a_result_has_metrics_and_a_table_of_verdicts(tiny: ExperimentContext):
    found = run_experiments([MadeUp()], tiny)
    assert found.metrics() == {
        "title": "The paper's figures",
        "caption": found.table().remarks[0],
        "settings": {"scale": "tiny"},
        "seed": 0,
        "figures": {"arrivals": {"title": "Arrivals"}},
    }
    table = found.table()
    assert list(table.columns) == ["figure", "claim", "first look"]
    assert [(name, verdict) for name, _, verdict in table.rows] == [("arrivals", "holds")] * 4
    assert repr(found).startswith("The paper's figures\n")
    assert not list(tiny.directory.parent.glob("arrivals"))


def test_figures_of_the_same_seed_and_scale_stay_on_the_page(tiny: ExperimentContext):
    out = tiny.directory.parent
    third = dataclasses.replace(tiny, seed=3)
    with pytest.warns(UserWarning, match="undecided"):
        run_experiments([EXPERIMENTS["noniid-data"]], third, out)
    run_experiments([MadeUp()], third, out)
    titles = {
        "arrivals": "Arrivals",
        "noniid-data": "Data that differ between workers (not mnist)",
    }
    assert read_metrics(out).figures == {name: {"title": title} for name, title in titles.items()}
    for directory in (out, *(out / name for name in titles)):
        metrics = read_metrics(directory)
        assert metrics.title == titles.get(directory.name, "The paper's figures")
        assert (metrics.seed, metrics.settings) == (3, {"scale": "tiny"})
        assert (metrics.runs_s is None) == (directory == out)
        assert metrics.provenance is not None
        assert metrics.model_fields_set <= set(RunMetrics.model_fields)
    page = (out / "report.html").read_text()
    assert page.count("<figure") == 2
    headings = [page.index(f"<h2>{title}</h2>") for title in titles.values()]
    assert headings == sorted(headings)
    for claim in read_metrics(out / "arrivals").claims:
        # In the list of all claims and beside its figure.
        assert page.count(f"<td>{claim.claim}</td>") == 2
    run_experiments([MadeUp()], dataclasses.replace(tiny, seed=4), out)
    assert list(read_metrics(out).figures) == ["arrivals"]
    assert (out / "report.html").read_text().count("<figure") == 1


def test_a_figure_on_other_data_than_the_papers_is_undecided(tiny: ExperimentContext):
    out = tiny.directory.parent
    with pytest.warns(UserWarning, match=f"arrivals: on {SUBSTITUTION}, which leaves"):
        found = run_experiments([OnMnist()], tiny, out).figures["arrivals"]
    metrics = read_metrics(out / "arrivals")
    assert (metrics.data, metrics.substitution) == ("digits", SUBSTITUTION)
    assert metrics.title == found.title == f"{MadeUp.title} (not mnist)"
    assert metrics.caption == found.caption == f"Data: {SUBSTITUTION}. {MadeUp.caption}"
    assert {claim.verdict for claim in metrics.claims} == {"undecided"}
    assert all(claim.measured.startswith(f"on {SUBSTITUTION}: ") for claim in metrics.claims)
    page = (out / "report.html").read_text()
    assert f"Data: {SUBSTITUTION}. " in page
    assert ">first look: undecided</span>" in page


@pytest.mark.filterwarnings("error")
def test_with_the_papers_data_nothing_is_substituted(tiny: ExperimentContext, real_data: Path):
    found = run_experiments([OnMnist()], dataclasses.replace(tiny, data=real_data))
    figure = found.figures["arrivals"]
    assert (figure.metrics()["data"], figure.substitution) == ("mnist", None)
    assert figure.title == MadeUp.title


@pytest.mark.parametrize("scale", [QUICK, FULL])
def test_verdicts_of_a_first_look_are_not_shown_as_verdicts(tmp_path: Path, scale):
    found = run_experiments([MadeUp()], ExperimentContext(tmp_path / "kept", scale), tmp_path)
    quick = scale is QUICK
    assert found.table().columns[-1] == ("first look" if quick else "verdict")
    assert [c.first_look for c in read_metrics(tmp_path / "arrivals").claims] == [quick] * 4
    page = (tmp_path / "report.html").read_text()
    assert ('<span class="verdict first-look">first look: holds</span>' in page) == quick
    assert ('<span class="verdict holds">' in page) != quick
    assert ("A first look" in page) == quick


def test_a_second_time_figures_are_only_drawn(tiny: ExperimentContext, seeds: list[int]):
    drawn = tiny.directory.parent / "arrivals"
    run_experiments([MadeUp()], tiny, drawn.parent)
    first = {
        path.name: path.read_bytes() for path in drawn.iterdir() if path.name != "metrics.json"
    }
    assert set(first) == {f"arrivals.{ending}" for ending in ("png", "svg", "csv", "json")}
    shutil.rmtree(drawn)
    run_experiments([MadeUp()], tiny, drawn.parent)
    assert {name: (drawn / name).read_bytes() for name in first} == first
    assert seeds == [0]
    run_experiments([MadeUp()], dataclasses.replace(tiny, seed=1))
    assert seeds == [0, 1]


def test_files_give_the_same_verdicts(tiny: ExperimentContext):
    out = tiny.directory.parent
    found = run_experiments([MadeUp()], tiny, out).figures["arrivals"]
    judged = MadeUp().claims(MadeUp().load(out / "arrivals"))
    assert [claim.measured for claim in judged] == [claim.measured for claim in found.claims]


@pytest.mark.parametrize(("experiment", "runs"), [(OnMnist(), 2), (MadeUp(), 1)])
def test_figures_of_digits_are_run_again_once_mnist_is_there(
    tiny: ExperimentContext, tmp_path: Path, seeds: list[int], experiment: MadeUp, runs: int
):
    with_mnist = dataclasses.replace(tiny, data=tmp_path / "data")
    for file in data_set("mnist").files:
        path = tmp_path / "data" / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    if experiment.data:
        with pytest.warns(UserWarning, match="undecided"):
            run_experiments([experiment], tiny)
    else:
        run_experiments([experiment], tiny)
    for _ in range(2):
        run_experiments([experiment], with_mnist)
        assert len(seeds) == runs


def test_a_figure_is_run_again_once_its_version_is_increased(
    tiny: ExperimentContext, seeds: list[int]
):
    run_experiments([MadeUp()], tiny)
    for _ in range(2):
        run_experiments([NewVersion()], tiny)
        assert len(seeds) == 2


def test_importing_the_function_does_not_import_torch():
    code = "import feduplink.experiments.reproduction, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_option_is_described():
    fields = options_of(reproduce).model_fields
    assert set(fields) == {"figures", "quick", "data", "processes", "seed", "device"}
    assert all(field.description for field in fields.values())


@pytest.mark.slow
def test_all_figures_quickly(tmp_path: Path, real_data: Path):
    found = reproduce(quick=True, processes=2, data=real_data, out=tmp_path)
    assert list(found.figures) == list(EXPERIMENTS)
    assert found.skipped == {}
    for name in EXPERIMENTS:
        assert (tmp_path / name / f"{name}.png").stat().st_size > 10_000
    assert (tmp_path / "report.html").read_text().count("<figure") == len(EXPERIMENTS)
