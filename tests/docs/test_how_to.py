"""The how-to guides run: all blocks of a page, in order, in one directory."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from .markdown import ROOT, Block, blocks, run

PAGES = ("how-to.md", "how-to-policies.md", "how-to-federated.md", "how-to-run.md")
#: A longer block is no short answer.
LONGEST = 24

_FILE = re.compile(r"# (\w+\.py)\n")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def guides(page: Path) -> dict[str, list[Block]]:
    """The blocks of every section, in order."""
    text = page.read_text(encoding="utf-8")
    starts = {text[: found.start()].count("\n") + 1: found[1] for found in _HEADING.finditer(text)}
    sections: dict[str, list[Block]] = {title: [] for title in starts.values()}
    for block in blocks(page):
        sections[starts[max(line for line in starts if line < block.line)]].append(block)
    return sections


def test_there_are_thirty_guides_and_each_block_is_short():
    sections = [section for name in PAGES for section in guides(ROOT / "docs" / name).items()]
    assert len(sections) >= 30
    for title, section in sections:
        assert all(len(block.code.splitlines()) <= LONGEST for block in section), title


def follow(page: str, place: Path) -> dict[str, Any]:
    """Paste all blocks of a page in a directory; the Python variables at the end."""
    names: dict[str, Any] = {}
    sys.path.insert(0, str(place))
    try:
        with contextlib.chdir(place):
            for block in blocks(ROOT / "docs" / page):
                if (file := _FILE.match(block.code)) is not None:
                    Path(file[1]).write_text(block.code, encoding="utf-8")
                else:
                    run(block, names)
    finally:
        sys.path.remove(str(place))
    return names


def policies_of(run_directory: Path) -> set[str]:
    """The names of the policies in a run's metrics."""
    metrics = json.loads((run_directory / "metrics.json").read_text())
    return set(metrics["policies"])


@pytest.mark.slow
def test_guides_to_channels_and_problems_run(tmp_path: Path):
    follow("how-to.md", tmp_path)
    runs = tmp_path / "runs"
    assert policies_of(runs / "four") == {"max", "openloop", "pdg"}
    assert policies_of(runs / "umi") == {"rand", "orth", "max", "openloop"}
    assert policies_of(runs / "sum-rate") == {"max", "openloop", "wmmse", "pdx"}
    scenario = json.loads((runs / "four" / "metrics.json").read_text())["scenario"]
    assert scenario["workers"] == 4


@pytest.mark.slow
def test_guides_to_policies_run(tmp_path: Path):
    names = follow("how-to-policies.md", tmp_path)
    assert tuple(names["loaded"].allocate(names["channels"].test).shape) == (300, 8)
    assert policies_of(tmp_path / "runs/inverse") == {"max", "openloop", "Inverse"}
    assert (tmp_path / "runs/inverse/comparison.png").stat().st_size > 1000


@pytest.mark.slow
def test_guides_to_federated_learning_run(tmp_path: Path):
    names = follow("how-to-federated.md", tmp_path)
    assert names["delivered"].shape == (8,)
    assert policies_of(tmp_path / "runs/images") == {"ideal", "max", "openloop"}
    assert (tmp_path / "error-joules.png").stat().st_size > 1000


@pytest.mark.slow
def test_guides_to_runs_run(tmp_path: Path):
    names = follow("how-to-run.md", tmp_path)
    assert names["powers"].shape == (200, 8)
    for file in ("runs/sweep/sweep.png", "runs/pmax/sweep.png", "pmax.png", "proof.h5"):
        assert (tmp_path / file).stat().st_size > 1000


# The example of docs/custom-task.md runs, learns, and is short.


CUSTOM_TASK = ROOT / "docs" / "custom-task.md"


def test_the_example_runs_and_learns():
    names: dict[str, Any] = {}
    printed = [run(block, names) for block in blocks(CUSTOM_TASK)]
    assert printed[0].startswith("ideal 0.")
    arrivals = names["changing"].history.policies["ideal"][0].arrivals
    assert arrivals == (4,) * 10 + (2,) * 10 + (4,) * 10
    assert names["result"].history.final_error("ideal") < 0.3


def test_a_task_takes_under_thirty_lines():
    statements = ast.parse(blocks(CUSTOM_TASK)[0].code).body
    task = [
        node
        for node in statements
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "task")
    ]
    assert len(task) == 2
    assert sum(node.end_lineno - node.lineno + 1 for node in task) < 30
