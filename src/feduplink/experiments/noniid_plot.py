"""Data that differ between workers, and the errors that follow."""

from __future__ import annotations

from typing import Any

import numpy as np

from feduplink.experiments.federations import Federations
from feduplink.experiments.noniid_data import NoniidData
from feduplink.federated.history import FederatedHistory
from feduplink.reporting.style import MUTED, StyledFigure, figure, looks_of

_BAR = "#56B4E9"


def plot_noniid_data(data: NoniidData, caption: str = "") -> StyledFigure:
    """A column per worker: its noisy digit, its weight, and its labels."""
    workers = len(data.labels)
    side = int(np.sqrt(len(data.digits[0])))
    most = max(max(counts) for counts in data.labels)
    with figure(1.25 * workers, 4.2, caption) as drawing:
        panels = drawing.subplots(3, workers, height_ratios=(1.2, 0.8, 1.0))
        for worker in range(workers):
            image, weight, labels = panels[:, worker]
            pixels = np.array(data.digits[worker]).reshape(side, side)
            image.imshow(pixels, cmap="gray", vmin=0, vmax=255)
            image.set_axis_off()
            image.set_title(f"worker {worker + 1}\nσ = {data.noise[worker]:.0f}")
            weight.bar([0], [data.weights[worker]], width=0.6, color=_BAR)
            weight.annotate(
                f"{data.weights[worker]:.2g}",
                (0, data.weights[worker]),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
            weight.set_xlim(-1, 1)
            weight.set_ylim(0, 1.25 * max(data.weights))
            weight.set_xticks([])
            labels.bar(range(len(data.labels[worker])), data.labels[worker], color=_BAR)
            labels.set_ylim(0, 1.05 * most)
            labels.set_xticks(range(0, 10, 3))
            labels.set_xlabel("label")
            if worker:
                weight.set_yticklabels([])
                labels.set_yticklabels([])
        panels[1, 0].set_ylabel("weight")
        panels[2, 0].set_ylabel("images")
        drawing.suptitle(
            "σ: standard deviation of the pixel noise, in grey levels of 0 to 255",
            fontsize=8,
            color=MUTED,
        )
    return drawing


def plot_noniid(result: Federations, caption: str = "") -> StyledFigure:
    """A panel for each kind of difference and average: bars of final errors, dots the runs."""
    count = len(result.comparisons)
    with figure(10.5, 3.2 * ((count + 1) // 2), caption) as drawing:
        panels = drawing.subplots((count + 1) // 2, 2, squeeze=False).flat
        for axes, (label, history) in zip(panels, result.comparisons.items(), strict=False):
            _plot_bars(axes, history)
            axes.set_title(label)
    return drawing


def _plot_bars(axes: Any, history: FederatedHistory) -> None:
    looks = looks_of(history.policies)
    for place, (name, look) in enumerate(looks.items()):
        finals = history.final_errors(name)
        mean = history.final_error(name)
        axes.bar(place, mean, width=0.7, color=look.colour, alpha=0.75, hatch=look.hatch)
        # Run by run, so that equal errors are seen side by side.
        apart = np.linspace(-0.15, 0.15, len(finals)) if len(finals) > 1 else [0.0]
        axes.plot(place + np.array(apart), finals, ".", color="black", markersize=4)
        axes.annotate(
            f"{mean:.4f}",
            (place, max(finals)),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    labels = [name.replace(":", ":\n") for name in looks]
    axes.set_xticks(range(len(looks)), labels, fontsize=7)
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.12)
    axes.set_ylabel(history.metric_name)
