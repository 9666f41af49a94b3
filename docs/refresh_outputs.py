"""Runs the tutorial and writes the shown outputs anew: ``python docs/refresh_outputs.py``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PAGES = ("tutorial.md", "tutorial-own.md", "tutorial-federated.md")


def main() -> None:
    """Replace every ``text`` block right after a block of code with what that code prints."""
    sys.path[:0] = [str(_ROOT), str(_ROOT / "tests"), str(_ROOT / "examples")]
    from tests.docs.markdown import run_all

    with tempfile.TemporaryDirectory() as directory:
        for name in _PAGES:
            page = _ROOT / "docs" / name
            text = page.read_text(encoding="utf-8")
            for block, printed in run_all(page, Path(directory)):
                if block.shown is None:
                    continue
                code = f"```{block.language}\n{block.code}```\n\n```text\n"
                text = text.replace(f"{code}{block.shown}```", f"{code}{printed}```")
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
