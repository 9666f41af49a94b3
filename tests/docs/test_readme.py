"""README.md: its commands run in order in one directory, and what it says is what they say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from feduplink.metrics import METRICS_FILE

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
def judged(printed: list[tuple[Block, str]], directory: Path) -> Path:
    """Where the table's command has written."""
    return directory / "runs/readme/policies"


@pytest.mark.slow
def test_the_table_is_that_of_its_command(judged: Path):
    said, made = rows(PAGE.read_text("utf-8")), rows((judged / "comparison.md").read_text("utf-8"))
    assert made.keys() <= said.keys()
    wrong = {name: differences(said[name], cells) for name, cells in made.items()}
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.slow
def test_pdx_meets_its_constraints_and_the_optimum_is_as_said(judged: Path):
    metrics: dict[str, Any] = json.loads((judged / METRICS_FILE).read_text("utf-8"))
    assert metrics["policies"]["pdx"]["feasible"] is True
    found, bound = (metrics["optimum"][name] for name in ("objective", "upper_bound"))
    [(said, said_bound)] = re.findall(r"reach (0\.\d+), and no\w* .*?exceeds? (0\.\d+)", _prose())
    # How far the proof gets in its seconds depends on the machine.
    assert float(said) == pytest.approx(found, abs=1e-4)
    assert found <= bound < found + 3 * (float(said_bound) - float(said))


def _prose() -> str:
    return " ".join(PAGE.read_text("utf-8").split())


def test_the_readme_is_short_and_names_the_paper_near_the_top():
    text = PAGE.read_text("utf-8")
    assert len(text.splitlines()) <= 160
    title = "Learning to Transmit with Provable Guarantees in Wireless Federated Learning"
    assert title in " ".join(text[:800].split())
