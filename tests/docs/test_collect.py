"""What is collected passes the check of numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from collect import collect

import check_numbers
from feduplink import InputError
from feduplink.experiments import EXPERIMENTS
from feduplink.experiments.arrivals import Arrivals
from feduplink.experiments.compared_policies import COMPARED
from feduplink.storage.run_directory import write_metrics

RESULT = Arrivals(
    arrivals={name: [[7, 8, 7], [8, 8, 6], [5, 8, 8]] for name in ("ideal", *COMPARED)}
)


def finished(directory: Path, scale: str = "full", substitution: str | None = None) -> Path:
    """A run of one figure."""
    figure = directory / "arrivals"
    figure.mkdir(parents=True)
    (figure / "arrivals.png").write_bytes(b"picture")
    (figure / "arrivals.csv").write_text(RESULT.to_csv().replace("7.33333", "7.333333333333333"))
    write_metrics(
        figure,
        {
            "title": "Arrivals",
            "caption": "What arrives.",
            "substitution": substitution,
            "settings": {"scale": scale},
        },
    )
    write_metrics(directory, {"figures": {"arrivals": {}}})
    return directory


def test_the_page_shows_what_follows_from_the_csv(tmp_path: Path):
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    collect([finished(tmp_path / "run")], results)
    assert (results / "arrivals.csv").read_text() == RESULT.to_csv()
    assert (results / "arrivals.png").read_bytes() == b"picture"
    checked = check_numbers.check(tmp_path)
    assert (checked.claims, checked.problems) == (len(EXPERIMENTS["arrivals"].claims(RESULT)), [])
    table = results / "arrivals.csv"
    table.write_text(table.read_text().replace(",2,1\n", ",1,2\n", 1))
    assert check_numbers.check(tmp_path).problems != []


@pytest.mark.parametrize("given", [{"scale": "quick"}, {"substitution": "5,000 digits"}])
def test_a_first_look_and_other_data_are_refused(tmp_path: Path, given: dict[str, str]):
    with pytest.raises(InputError, match="is not at full scale or on other data"):
        collect([finished(tmp_path / "run", **given)], tmp_path)


def test_numbers_without_a_figure_on_the_page_are_found(tmp_path: Path):
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    (results / "pmax.csv").write_text("never collected\n")
    collect([finished(tmp_path / "run")], results)
    assert "nothing on pmax.csv" in check_numbers.check(tmp_path).problems[0]


def test_a_figure_collected_before_keeps_its_picture_and_caption_and_is_judged_again(
    tmp_path: Path,
):
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    collect([finished(tmp_path / "run")], results)
    page = results / "README.md"
    before = page.read_text()
    stale = before.replace("0.94 ± 0.27", "0.01 ± 0.00")
    assert stale != before
    page.write_text(stale)
    collect([], results)
    assert page.read_text() == before
    assert "What arrives." in before
    assert (results / "arrivals.png").read_bytes() == b"picture"


def test_what_is_collected_again_replaces_what_was_there(tmp_path: Path):
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    collect([finished(tmp_path / "run")], results)
    page = results / "README.md"
    page.write_text(page.read_text().replace("What arrives.", "What arrived."))
    (results / "arrivals.png").write_bytes(b"old picture")
    collect([tmp_path / "run"], results)
    assert "What arrives." in page.read_text()
    assert "What arrived." not in page.read_text()
    assert (results / "arrivals.png").read_bytes() == b"picture"
