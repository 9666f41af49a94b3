"""The tutorial runs, page after page in one directory, and prints what is shown."""

from __future__ import annotations

import pytest

from .markdown import ROOT, Block, differences, run_all, wrongly_shown

PAGES = ("tutorial.md", "tutorial-own.md", "tutorial-federated.md")


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Block, str]]]:
    directory = tmp_path_factory.mktemp("tutorial")
    return {name: run_all(ROOT / "docs" / name, directory) for name in PAGES}


@pytest.mark.slow
def test_what_is_shown_is_what_is_printed(tutorial: dict[str, list[tuple[Block, str]]]):
    wrong = {name: wrongly_shown(printed) for name, printed in tutorial.items()}
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.slow
def test_nothing_is_printed_that_is_not_shown(tutorial: dict[str, list[tuple[Block, str]]]):
    silent = [
        (name, block.line)
        for name, blocks in tutorial.items()
        for block, printed in blocks
        if printed and block.shown is None
    ]
    assert silent == []


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
