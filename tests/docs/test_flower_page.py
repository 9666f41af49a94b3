"""The two halves of an app in docs/flower.md run; keys and metrics are all on the page."""

from __future__ import annotations

from typing import Any

import pytest
from flwr.app import Context, RecordDict

from feduplink.flower import TaskRun, UplinkRound
from flower.in_process_grid import InProcessGrid

from .markdown import ROOT, blocks, run

PAGE = ROOT / "docs" / "flower.md"


def test_the_app(capsys: pytest.CaptureFixture[str]):
    server, client = blocks(PAGE)
    names: list[dict[str, Any]] = [{}, {}]
    for block, own in zip((server, client), names, strict=True):
        run(block, own)
    grid = InProcessGrid(names[1]["app"], 4)
    names[0]["app"](grid, Context(1, 1, {}, RecordDict(), {}))
    assert "'uplink-present': 4" in capsys.readouterr().out


def test_every_key_and_every_metric_is_on_the_page():
    keys = {name.replace("_", "-") for name in TaskRun.model_fields}
    metrics = set(UplinkRound(1, (), (), (), 0.0, 0.0, 0).metrics())
    text = PAGE.read_text(encoding="utf-8")
    assert {name for name in keys | metrics if f"`{name}`" not in text} == set()
