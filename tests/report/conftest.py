from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.text import Text

from feduplink.reporting.style import StyledFigure, figure, save_figure
from feduplink.storage.run_directory import write_metrics

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A run that looks like that of a command: metrics, and figures by name."""

    def make(name: str, *figures: str, **content: Any) -> Path:
        directory = tmp_path / name
        write_metrics(directory, {"seed": 3, **content})
        for title in figures:
            with figure(4, 2, f"What {title} shows") as drawing:
                drawing.subplots().plot([0, 1], color="#0072B2", label="pdg")
            save_figure(directory / f"{title}.png", drawing)
        return directory

    return make


def rendered(drawing: StyledFigure) -> StyledFigure:
    """The figure after it was drawn once: warnings come then, and places are final."""
    drawing.savefig(io.BytesIO(), format="png")
    return drawing


def written(drawing: StyledFigure) -> list[str]:
    """All that is written in a figure."""
    return [text.get_text() for text in drawing.findobj(Text) if text.get_text()]
