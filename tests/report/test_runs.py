from __future__ import annotations

from pathlib import Path

import pytest

from feduplink import InputError
from feduplink.storage.run_directory import find_runs

from .conftest import MakeRun


def _names(directories: list[Path], below: Path) -> list[str]:
    return [str(run.directory.relative_to(below)) for run in find_runs(directories)]


def test_a_run_comes_before_those_below_it_and_these_by_name(make_run: MakeRun, tmp_path: Path):
    for name in ("all/b", "all", "all/a", "all/deep/down"):
        make_run(name)
    expected = ["all", "all/a", "all/b", "all/deep/down"]
    assert _names([tmp_path], tmp_path) == expected
    assert _names([tmp_path / "all"], tmp_path) == expected


def test_the_listed_figures_give_the_order(make_run: MakeRun, tmp_path: Path):
    make_run("paper", figures={"fig4": {}, "missing": {}, "fig3": {}})
    for name in ("fig3", "fig4", "extra"):
        make_run(f"paper/{name}")
    assert _names([tmp_path], tmp_path) == ["paper", "paper/fig4", "paper/fig3", "paper/extra"]


def test_every_run_once_and_no_report(make_run: MakeRun, tmp_path: Path):
    make_run("b")
    make_run("a")
    make_run("a/page", report={"page": "report.html"})
    (tmp_path / "b/again").symlink_to(tmp_path / "b")
    assert _names([tmp_path / "b", tmp_path, tmp_path / "a"], tmp_path) == ["b", "a"]


def test_titles(make_run: MakeRun):
    runs = find_runs([make_run("mine"), make_run("other", title="Policies compared")])
    assert [run.title for run in runs] == ["mine", "Policies compared"]


def test_a_directory_without_runs_is_refused(make_run: MakeRun, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    page = make_run("page", report={})
    for directory in (tmp_path / "empty", page):
        with pytest.raises(InputError, match=r"no metrics\.json of a run"):
            find_runs([make_run("good"), directory])
    with pytest.raises(InputError, match="no directory"):
        find_runs([tmp_path / "nowhere"])
