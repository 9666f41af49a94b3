"""docs/api.md: its blocks run in order in an empty directory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .markdown import ROOT

BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "docs/api.md").read_text("utf-8"), re.S | re.M
)


def test_the_blocks_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, block in enumerate(BLOCKS, 1):
        exec(compile(block, f"api.md, block {number}", "exec"), names)
    assert str(names["result"]) == str(names["again"])
    assert names["result"].metrics() == names["again"].metrics()
    assert names["loaded"].name == "pdg"
    assert names["one"].shape == (8,)
