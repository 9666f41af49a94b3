"""How far a Flower run of a task is: one line per round, written by the server as it goes."""

from __future__ import annotations

import json
import math
from pathlib import Path

PROGRESS_FILE = "rounds.jsonl"


def begin_rounds(directory: Path) -> None:
    """None are finished yet, also where a run was before."""
    (directory / PROGRESS_FILE).unlink(missing_ok=True)


def append_round(directory: Path, error: float) -> None:
    """Add a finished round with the error of the global model after it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / PROGRESS_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"error": error if math.isfinite(error) else None}) + "\n")


def finished_rounds(directory: Path) -> list[float]:
    """The errors of the rounds so far; a line that is not complete yet is left for later."""
    path = directory / PROGRESS_FILE
    if not path.exists():
        return []
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    errors = (json.loads(line)["error"] for line in lines)
    return [math.nan if error is None else error for error in errors]
