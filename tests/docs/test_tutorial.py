"""docs/tutorial.md and the Python of README.md run, and print what is shown."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from .markdown import ROOT, Block, blocks, differences, run

PAGE = ROOT / "docs" / "tutorial.md"


@dataclass(frozen=True)
class Read:
    """The tutorial after a reader has pasted all of it: its directory, and what was printed."""

    directory: Path
    printed: list[tuple[Block, str]]


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Read:
    directory = tmp_path_factory.mktemp("tutorial")
    names: dict[str, object] = {}
    with contextlib.chdir(directory):
        return Read(directory, [(block, run(block, names)) for block in blocks(PAGE)])


@pytest.mark.slow
def test_what_is_shown_is_what_is_printed(tutorial: Read):
    wrong = [
        f"line {block.line}: {difference}"
        for block, printed in tutorial.printed
        if block.shown is not None
        for difference in differences(block.shown, printed)
    ]
    assert wrong == []


@pytest.mark.slow
def test_nothing_is_printed_that_is_not_shown(tutorial: Read):
    silent = [block.line for block, printed in tutorial.printed if printed and block.shown is None]
    assert silent == []


@pytest.mark.slow
def test_the_readme_runs_with_the_tutorials_policy(tutorial: Read):
    [block] = [block for block in blocks(ROOT / "README.md") if block.language == "python"]
    with contextlib.chdir(tutorial.directory):
        printed = run(block, {}).splitlines()
    assert [line.split()[0] for line in printed] == ["max", "pdg"]


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        ("max  0.70", "max 0.70\n", True),
        ("error 0.150", "error 0.157", True),
        ("error 0.150", "error 0.160", False),
        ("1,000 J", "1,040 J", True),
        ("1,000 J", "1,400 J", False),
        ("gap 0.001", "gap 0.002", True),
        ("gap 0.001", "gap 0.003", False),
        ("-3.0 dB", "3.0 dB", False),
        ("feasible: True", "feasible: False", False),
        ("one line", "one line more", False),
    ],
)
def test_the_rule_by_which_outputs_are_compared(shown: str, real: str, same: bool):
    assert (differences(shown, real) == []) == same
