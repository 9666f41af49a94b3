"""README.md: its commands run in order in one directory, and what it says is what they say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from feduplink.storage.run_directory import METRICS_FILE

from .markdown import ROOT, Block, differences, run_all, wrongly_shown

PAGE = ROOT / "README.md"
#: Rows of tables of policies, the name without what explains it.
_ROW = re.compile(r"^\| `?(?P<name>[\w:]+)`?[^|]*\|(?P<cells>.*)\|$", re.MULTILINE)


def rows(table: str) -> dict[str, str]:
    """The cells of every policy, as text."""
    return {row["name"]: row["cells"] for row in _ROW.finditer(table)}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def printed(directory: Path) -> list[tuple[Block, str]]:
    return run_all(PAGE, directory)


@pytest.mark.slow
def test_what_is_shown_is_what_is_printed(printed: list[tuple[Block, str]]):
    assert wrongly_shown(printed) == []


@pytest.fixture
def runs(printed: list[tuple[Block, str]], directory: Path) -> Path:
    """Where the commands have written."""
    return directory / "runs/readme"


@pytest.mark.slow
def test_the_table_is_that_of_its_command(runs: Path):
    said = rows(PAGE.read_text("utf-8"))
    made = rows((runs / "policies/comparison.md").read_text("utf-8"))
    assert made.keys() <= said.keys()
    wrong = {name: differences(said[name], cells) for name, cells in made.items()}
    assert {name: found for name, found in wrong.items() if found} == {}
    assert said["pdx"].split("|")[-1].startswith(" feasible ")


@pytest.mark.slow
def test_the_optimum_is_as_said(runs: Path):
    """How far its proof gets in its seconds depends on the machine."""
    optimum = json.loads((runs / "optimum" / METRICS_FILE).read_text("utf-8"))["optimum"]
    [(said, bound)] = re.findall(r"reach (0\.\d+), and no\w* .*?exceeds? (0\.\d+)", _prose())
    assert float(said) == pytest.approx(optimum["objective"], abs=1e-4)
    assert optimum["objective"] <= min(float(bound), optimum["upper_bound"])


def _prose() -> str:
    return " ".join(PAGE.read_text("utf-8").split())


def test_the_readme_is_short_and_names_the_paper_near_the_top():
    text = PAGE.read_text("utf-8")
    assert len(text.splitlines()) <= 160
    title = "Learning to Transmit with Provable Guarantees in Wireless Federated Learning"
    assert title in " ".join(text[:800].split())
