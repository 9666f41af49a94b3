"""Draws envelope.png: a worker's value and its concave envelope."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from feduplink.optimum import Envelope, WorkerValue
from feduplink.reporting.style import figure, save_figure

_LOW, _HIGH, _SPLIT = -5.5, 4.0, -3.9
_PANELS = (
    ("on the whole interval", [(_LOW, _HIGH, -math.inf)]),
    ("after one split", [(_LOW, _SPLIT, -math.inf), (_SPLIT, _HIGH, -math.inf)]),
    ("the worker may also rest", [(_LOW, _HIGH, 0.0)]),
)


def _column(value: float) -> torch.Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def main() -> None:
    """Draw it beside this file."""
    value = WorkerValue(_column(1.0), _column(0.2), _column(0.35), waterfall=0.023)
    s = torch.linspace(_LOW, _HIGH, 600, dtype=torch.float64)
    with figure(9.6, 3.0) as drawing:
        panels = drawing.subplots(1, 3, sharey=True)
        for axes, (title, pieces) in zip(panels, _PANELS, strict=True):
            axes.plot(s, value.at(s[:, None])[0][:, 0], color="black", label="value f(s)")
            for low, high, floor in pieces:
                envelope = Envelope.on_interval(value, _column(low), _column(high), _column(floor))
                inside = s[(s >= low) & (s <= high)]
                above = envelope.at(inside[:, None])[0][:, 0]
                axes.plot(inside, above, color="#D55E00", linewidth=2, alpha=0.8)
                axes.fill_between(
                    inside, value.at(inside[:, None])[0][:, 0], above, color="#D55E00", alpha=0.15
                )
            axes.plot([], [], color="#D55E00", linewidth=2, label="envelope")
            axes.axvline(
                math.log(0.023), color="#0072B2", linestyle=":", linewidth=1, label="PSR = 1/e"
            )
            axes.set_title(title)
            axes.set_xlabel("s = ln SINR")
        panels[0].set_ylabel("value of one worker")
        axes.legend(loc="lower right")
    save_figure(Path(__file__).with_suffix(".png"), drawing)


if __name__ == "__main__":
    main()
