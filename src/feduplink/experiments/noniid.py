"""Federated learning of digits with non-i.i.d. data: pixel noise or skewed labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from feduplink.experiments import Experiment, ExperimentResult
from feduplink.experiments.compared import COMPARED
from feduplink.experiments.context import ExperimentContext
from feduplink.experiments.federated_tasks import (
    EXACT,
    PAPER_POLICIES,
    PUBLISHED,
    Comparison,
    FederatedResult,
    PaperErrors,
    load_images,
    paper_error_claims,
    pdg_claims,
)
from feduplink.federated import FederatedHistory
from feduplink.federated.data.partition import importance_of_noise, noise_levels, with_pixel_noise
from feduplink.federated.tasks.images import grey_levels
from feduplink.policies import Ideal
from feduplink.randomness import numpy_generator
from feduplink.reporting.style import MUTED, StyledFigure, figure, looks_of
from feduplink.scenario import Scenario, data_sizes
from feduplink.settings import Partition
from feduplink.storage.run_directory import Claim

_BAR_COLOUR = "#56B4E9"


class NoniidDataResult(ExperimentResult):
    """Data of each worker under both non-i.i.d. partitions.

    Attributes:
        noise: standard deviation of the pixel noise of each worker, in grey levels.
        weights: weight of each worker by the quality of its data.
        digits: one digit with the noise of each worker, as rows of pixels from 0 to 255.
        labels: number of images per label of each worker.
    """

    noise: list[float]
    weights: list[float]
    digits: list[list[int]]
    labels: list[list[int]]

    def rows(self) -> Iterator[dict[str, object]]:
        """Rows per worker."""
        for worker, counts in enumerate(self.labels):
            yield {
                "worker": worker + 1,
                "noise_std": self.noise[worker],
                "weight": self.weights[worker],
                **{f"label_{digit}": count for digit, count in enumerate(counts)},
            }


class NoniidData(Experiment[NoniidDataResult]):
    """Illustration of the data of the first run."""

    name = "noniid-data"
    title = "Data that differ between workers"
    caption = (
        "Above: one digit with the pixel noise of each worker, and the weight of the worker by "
        "the quality of its data. Below: labels of each worker's images for one draw of the "
        "Dirichlet partition (κ = 1)."
    )
    result_type = NoniidDataResult
    data = "mnist"

    def run(self, context: ExperimentContext) -> NoniidDataResult:
        """Draw the data."""
        workers = Scenario().workers
        levels = noise_levels(data_sizes(workers))
        clean = load_images(context, "iid").data(numpy_generator(context.seed, "data"))
        digit = grey_levels(clean.pool.inputs[clean.shares[0][0]])
        one_each = tuple(torch.tensor([worker]) for worker in range(workers))
        rng = numpy_generator(context.seed, "data")
        noisy = with_pixel_noise(digit.expand(workers, -1), one_each, levels, rng)
        skewed = load_images(context, "dirichlet").data(numpy_generator(context.seed, "data"))
        labels = [np.bincount(skewed.pool.targets[share], minlength=10) for share in skewed.shares]
        return NoniidDataResult(
            noise=levels.tolist(),
            weights=importance_of_noise(levels).tolist(),
            digits=noisy.tolist(),
            labels=[counts.tolist() for counts in labels],
        )

    def claims(self, result: NoniidDataResult) -> list[Claim]:
        """No claim: the figure is an illustration."""
        return []

    def plot(self, result: NoniidDataResult, caption: str = "") -> StyledFigure:
        """Draw a column per worker: its noisy digit, its weight, and its labels."""
        workers = len(result.labels)
        side = int(np.sqrt(len(result.digits[0])))
        most = max(max(counts) for counts in result.labels)
        with figure(1.25 * workers, 4.2, caption) as drawing:
            panels = drawing.subplots(3, workers, height_ratios=(1.2, 0.8, 1.0))
            for worker in range(workers):
                image, weight, labels = panels[:, worker]
                pixels = np.array(result.digits[worker]).reshape(side, side)
                image.imshow(pixels, cmap="gray", vmin=0, vmax=255)
                image.set_axis_off()
                image.set_title(f"worker {worker + 1}\nσ = {result.noise[worker]:.0f}")
                bar = weight.bar([0], [result.weights[worker]], width=0.6, color=_BAR_COLOUR)
                weight.bar_label(bar, fmt="%.2g", padding=2, fontsize=8)
                weight.set_xlim(-1, 1)
                weight.set_ylim(0, 1.25 * max(result.weights))
                weight.set_xticks([])
                labels.bar(
                    range(len(result.labels[worker])), result.labels[worker], color=_BAR_COLOUR
                )
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


class NoniidErrors(Experiment[FederatedResult]):
    """Final errors under both non-i.i.d. partitions and both averages of the server."""

    name = "noniid"
    title = "Digits that differ between workers"
    caption = (
        "Final error (last ten rounds) with pixel noise that differs between workers (Gaussian, "
        "weights by data quality) and with skewed labels (Dirichlet, κ = 1); bars are means over "
        "the runs, dots the runs."
    )
    result_type = FederatedResult
    data: ClassVar[str] = "mnist"
    # Final errors in the authors' notebooks.
    paper: ClassVar[Mapping[Partition, PaperErrors]] = {
        "gaussian": PaperErrors(100, ideal=0.143, rand=0.216, orth=0.252, pdg=0.161, pdm=0.195),
        "dirichlet": PaperErrors(100, ideal=0.153, rand=0.304, orth=0.317, pdg=0.184, pdm=0.281),
    }

    def run(self, context: ExperimentContext) -> FederatedResult:
        """Train under both partitions and both averages."""
        found = {}
        for partition in self.paper:
            exact = Comparison("mnist", partition=partition).run(context)
            found[f"{partition}, {EXACT}"] = exact.only((Ideal.name, *COMPARED))
            published = Comparison("mnist", PAPER_POLICIES, partition, "published")
            found[f"{partition}, {PUBLISHED}"] = published.run(context)
        return FederatedResult(comparisons=found)

    def claims(self, result: FederatedResult) -> list[Claim]:
        """Claims that PDG is best under both partitions, and on the paper's final errors."""
        found = []
        for partition, paper in self.paper.items():
            for average in (EXACT, PUBLISHED):
                found += pdg_claims(result, f"{partition}, {average}")
            label = f"{partition}, {PUBLISHED}"
            found += paper_error_claims(result, label, self.data, paper, f"; {partition}")
        return found

    def plot(self, result: FederatedResult, caption: str = "") -> StyledFigure:
        """Draw a panel per partition and average: bars of final errors, and a dot per run."""
        count = len(result.comparisons)
        with figure(10.5, 3.2 * ((count + 1) // 2), caption) as drawing:
            panels = drawing.subplots((count + 1) // 2, 2, squeeze=False).flat
            for axes, (label, history) in zip(panels, result.comparisons.items(), strict=False):
                _plot_bars(axes, history)
                axes.set_title(label)
        return drawing


def _plot_bars(axes: Any, history: FederatedHistory) -> None:
    looks = looks_of(history.policies)
    labels = []
    for position, (name, look) in enumerate(looks.items()):
        finals, mean = history.final_errors(name), history.final_error(name)
        axes.bar(position, mean, width=0.7, color=look.colour, alpha=0.75, hatch=look.hatch)
        # The dots of equal errors are drawn side by side.
        offsets = np.linspace(-0.15, 0.15, len(finals)) if len(finals) > 1 else np.zeros(1)
        axes.plot(position + offsets, finals, ".", color="black", markersize=4)
        labels.append(f"{mean:.4f}\n" + name.replace(":", ":\n"))
    axes.set_xticks(range(len(looks)), labels, fontsize=7)
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.12)
    axes.set_ylabel(history.metric_name)
