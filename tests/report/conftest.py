from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from feduplink.metrics import write_metrics
from feduplink.report import style
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


class Drawn(Figure):
    """A figure that can be asked what is written in it."""

    def written(self) -> list[str]:
        return [text.get_text() for text in self.findobj(Text) if text.get_text()]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Drawn]:
    """The figures that the test draws, in order."""
    figures: list[Drawn] = []

    class Recorded(Drawn):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            figures.append(self)

    monkeypatch.setattr(style, "Figure", Recorded)
    return figures
