"""docs/tutorial.md runs, and prints what is shown."""

from __future__ import annotations

import pytest

from .markdown import ROOT, Block, differences, run_all, wrongly_shown

PAGE = ROOT / "docs" / "tutorial.md"


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Block, str]]:
    return run_all(PAGE, tmp_path_factory.mktemp("tutorial"))


@pytest.mark.slow
def test_what_is_shown_is_what_is_printed(tutorial: list[tuple[Block, str]]):
    assert wrongly_shown(tutorial) == []


@pytest.mark.slow
def test_nothing_is_printed_that_is_not_shown(tutorial: list[tuple[Block, str]]):
    silent = [block.line for block, printed in tutorial if printed and block.shown is None]
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
