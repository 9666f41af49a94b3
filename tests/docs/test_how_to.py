"""docs/how-to.md: ten wishes, each in at most 20 lines, and they come true."""

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

PAGE = ROOT / "docs" / "how-to.md"
LONGEST = 20

_FILE = re.compile(r"# (\w+\.py)\n")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def wishes() -> dict[str, list[Block]]:
    """The blocks of every section, in order."""
    text = PAGE.read_text(encoding="utf-8")
    starts = {text[: found.start()].count("\n") + 1: found[1] for found in _HEADING.finditer(text)}
    sections: dict[str, list[Block]] = {title: [] for title in starts.values()}
    for block in blocks(PAGE):
        sections[starts[max(line for line in starts if line < block.line)]].append(block)
    return sections


def test_there_are_ten_and_each_block_is_short():
    assert len(wishes()) == 10
    for title, section in wishes().items():
        assert section, title
        assert all(len(block.code.splitlines()) <= LONGEST for block in section), title


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader has pasted all of it."""
    place = tmp_path_factory.mktemp("how-to")
    names: dict[str, object] = {}
    sys.path.insert(0, str(place))
    with contextlib.chdir(place):
        for block in (block for section in wishes().values() for block in section):
            if (file := _FILE.match(block.code)) is not None:
                Path(file[1]).write_text(block.code, encoding="utf-8")
            else:
                run(block, names)
    sys.path.remove(str(place))
    assert tuple(names["power"].shape) == (300, 12)
    return place


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "policies"),
    [
        ("twelve", {"max", "openloop", "pdg"}),
        ("inverse", {"max", "openloop", "inverse"}),
        ("goodput", {"max", "openloop"}),
        ("per-worker", {"rand", "orth", "max", "openloop"}),
        ("images", {"ideal", "max", "openloop"}),
        ("energy", {"tdma", "max", "openloop"}),
        ("umi", {"rand", "orth", "max", "openloop"}),
    ],
)
def test_every_wish_comes_true(directory: Path, path: str, policies: set[str]):
    metrics = json.loads((directory / "runs" / path / "metrics.json").read_text())
    assert metrics["policies"].keys() == policies


@pytest.mark.slow
def test_files_that_were_promised_are_there(directory: Path):
    for file in ("inverse/comparison.png", "energy/error.png", "sweep/sweep.png"):
        assert (directory / "runs" / file).stat().st_size > 1000
    scenario = json.loads((directory / "runs/twelve/metrics.json").read_text())["scenario"]
    assert scenario["workers"] == 12


# The example of docs/custom-task.md runs, learns, and is as short as promised.


CUSTOM_TASK = ROOT / "docs" / "custom-task.md"


def test_the_example_runs_and_learns():
    names: dict[str, Any] = {}
    printed = [run(block, names) for block in blocks(CUSTOM_TASK)]
    assert printed[0].startswith("ideal 0.")
    assert names["history"].policies["ideal"][0].arrivals == (4,) * 10 + (2,) * 10 + (4,) * 10
    assert names["history"].final_error("ideal") < 0.3


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
