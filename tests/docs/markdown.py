"""The pages of the documentation, taken apart and run."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from feduplink.cli.command_line import main

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
_RULE = re.compile("─+")

#: How far a shown number may be from the real one, as a share of it; training is repeatable on
#: one processor, but rounds differently on another.
TOLERANCE = 0.05


@dataclass(frozen=True)
class Block:
    """A fenced block, and the ``text`` block right after it: what it is shown to print."""

    language: str
    code: str
    line: int
    shown: str | None = None


def blocks(page: Path) -> list[Block]:
    """The blocks to run, in order."""
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    outputs = {
        before.start(): after[2]
        for before, after in pairwise(found)
        if after[1] == "text" and not text[before.end() : after.start()].strip()
    }
    return [
        Block(fence[1], fence[2], text[: fence.start()].count("\n") + 1, outputs.get(fence.start()))
        for fence in found
        if fence[1] != "text"
    ]


def run(block: Block, names: dict[str, Any]) -> str:
    """Run a block with the Python variables so far, in the current directory; what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if block.language == "python":
            exec(compile(block.code, f"line {block.line}", "exec"), names)
        else:
            assert block.language == "sh", f"line {block.line}: a block of {block.language!r}"
            for line in block.code.replace("\\\n", " ").splitlines():
                _run_line(line)
    return out.getvalue()


def run_all(page: Path, directory: Path) -> list[tuple[Block, str]]:
    """What a reader sees who pastes all blocks of a page, in order, in one directory."""
    names: dict[str, Any] = {}
    with contextlib.chdir(directory):
        return [(block, run(block, names)) for block in blocks(page)]


def wrongly_shown(printed: list[tuple[Block, str]]) -> list[str]:
    """Where a page shows something else than is printed."""
    return [
        f"line {block.line}: {difference}"
        for block, real in printed
        if block.shown is not None
        for difference in differences(block.shown, real)
    ]


def _run_line(line: str) -> None:
    command, *words = shlex.split(line, comments=True) or [""]
    if command == "feduplink":
        assert main(words) == 0, line
    elif command == "make":
        # Installing is not repeated here; that there is such a target is checked.
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
    else:
        assert (command, words) in (("pip", ["install", "."]), ("", [])), line


def differences(shown: str, real: str) -> list[str]:
    """What is wrong about a shown output; nothing if it is the real one.

    All words must be the same, and every number within :data:`TOLERANCE` or one unit of its last
    shown digit. Spaces and rules of tables do not count.
    """
    words, real_words = (_NUMBER.sub("#", _RULE.sub("", text)).split() for text in (shown, real))
    if words != real_words:
        return [f"prints {' '.join(real_words)!r}, not {' '.join(words)!r}"]
    numbers = zip(_NUMBER.findall(shown), _NUMBER.findall(real), strict=True)
    return [f"prints {there}, not {here}" for here, there in numbers if not _close(here, there)]


def _close(shown: str, real: str) -> bool:
    wanted, got = (float(text.replace(",", "")) for text in (shown, real))
    last_digit = 10.0 ** -len(shown.partition(".")[2])
    return abs(got - wanted) <= max(TOLERANCE * abs(got), last_digit * 1.001)
