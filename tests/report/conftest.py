from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feduplink.metrics import write_metrics
from feduplink.report.style import figure

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A run that looks like that of a command: metrics, and figures by name."""

    def make(name: str, *figures: str, **content: Any) -> Path:
        directory = tmp_path / name
        write_metrics(directory, {"seed": 3, **content})
        for title in figures:
            with figure(directory / f"{title}.png", 4, 2, f"What {title} shows") as drawing:
                drawing.subplots().plot([0, 1], color="#0072B2", label="pdg")
        return directory

    return make
