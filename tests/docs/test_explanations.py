"""The Python blocks of the pages that explain run in an empty directory."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from .markdown import ROOT, blocks, run


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.md", "validity.md", "pdx.md", "schedule.md"])
def test_python_blocks_run(page: str, tmp_path: Path):
    programs = [block for block in blocks(ROOT / "docs" / page) if block.language == "python"]
    assert programs
    names: dict[str, Any] = {}
    with contextlib.chdir(tmp_path):
        for block in programs:
            run(block, names)
