"""Figures of a run are copied for the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from collect import collect

from feduplink import InputError
from feduplink.storage.run_directory import write_metrics


def finished(directory: Path, scale: str = "full", substitution: str | None = None) -> Path:
    """A run of one figure."""
    figure = directory / "arrivals"
    figure.mkdir(parents=True)
    for suffix in ("json", "csv", "png", "svg"):
        (figure / f"arrivals.{suffix}").write_text(suffix)
    write_metrics(figure, {"substitution": substitution, "settings": {"scale": scale}})
    write_metrics(directory, {"figures": {"arrivals": {}}})
    return directory


def test_figure_and_numbers_are_copied(tmp_path: Path):
    results = tmp_path / "results"
    results.mkdir()
    (results / "arrivals.png").write_text("old")
    collect([finished(tmp_path / "run")], results)
    assert {path.name: path.read_text() for path in results.iterdir()} == {
        "arrivals.json": "json",
        "arrivals.csv": "csv",
        "arrivals.png": "png",
    }


@pytest.mark.parametrize("given", [{"scale": "quick"}, {"substitution": "5,000 digits"}])
def test_a_first_look_and_other_data_are_refused(tmp_path: Path, given: dict[str, str]):
    with pytest.raises(InputError, match="not at full scale or on other data"):
        collect([finished(tmp_path / "run", **given)], tmp_path)
