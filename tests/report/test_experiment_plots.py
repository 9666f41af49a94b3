"""The figures of experiments, from results made up."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from experiments.made import federations, figures, history, sweep
from feduplink import Scenario
from feduplink.experiments import EXPERIMENTS, experiment_files
from feduplink.experiments.gap_plot import plot_gap
from feduplink.experiments.noniid_data import NoniidData
from feduplink.experiments.noniid_plot import plot_noniid, plot_noniid_data
from feduplink.experiments.optimality_gap import OptimalityGap
from feduplink.experiments.sweep_plot import plot_sweep
from feduplink.reporting.federated import plot_arrivals, plot_averages, plot_costs
from feduplink.reporting.style import StyledFigure, save_figure
from feduplink.reporting.training import plot_convergences
from feduplink.training import Epoch

CAPTION = "What there is to see"

#: pdm is absent at the second value; orth is silent there.
SWEEP = sweep(
    pdm=[(0.5, 0.3), (0.5, 0.3)],
    orth=[(0.4, 0.4), (0.0, None)],
    pdg=[(0.6, 0.2), (0.5, 0.3)],
    optimum=[(0.7, 0.1), (0.6, 0.2)],
)
SWEEP.policies["pdm"][1] = []
SWEEP.policies["pdg"][1] = [figures(0.5, 0.3, feasible=False), figures(0.4, 0.2, feasible=None)]

GAP = OptimalityGap(
    scenarios=["default", "interference-x2"],
    sweep=sweep(pdg=[(0.5, 0.3), (0.71, 0.3)], optimum=[(0.7, 0.1), (0.7, 0.1)]),
    optimum=[0.7, 0.7],
    upper_bound=[0.7, 0.75],
)

REACHED = {"rate": (1.0, math.nan), "energy_efficiency": (60.0, 70.0)}
EPOCHS = [Epoch(n, 0.5, 0.5, n % 2, n == 0, REACHED, {}) for n in range(3)]
HISTORIES = {"pdg": [EPOCHS, EPOCHS], "pdm": [EPOCHS]}

DATA = NoniidData(
    noise=[10.0, 60.0],
    weights=[7.4, 0.2],
    digits=[list(range(16)), [255] * 16],
    labels=[[5] * 10, [0] * 9 + [40]],
)

#: Models that diverge, and that are perfect.
FEDERATIONS = federations(
    exact_average={"ideal": 0.1, "rand": math.nan, "orth": 0.3},
    published_average={"ideal": 0.0, "rand": math.inf},
)
#: A panel has no partner.
RATES = federations(a={"ideal": 0.0, "rand": 0.9}, b={"ideal": 0.1}, c={"pdg": 0.2})
COSTS = history({"ideal": 0.1, "max": 0.2, "orth": 0.3}, {"max": (9.0, 1.0), "orth": (0.0, 2.0)})

FIGURES: dict[str, Callable[[], StyledFigure]] = {
    "sweep": lambda: plot_sweep(SWEEP, CAPTION),
    "gap": lambda: plot_gap(GAP, CAPTION),
    "convergences": lambda: plot_convergences(
        HISTORIES, {"optimum": 0.7}, Scenario(workers=2), CAPTION
    ),
    "noniid-data": lambda: plot_noniid_data(DATA, CAPTION),
    "noniid": lambda: plot_noniid(RATES, CAPTION),
    "averages": lambda: plot_averages(FEDERATIONS.comparisons, CAPTION),
    "costs": lambda: plot_costs({"alike": COSTS, "noisy": COSTS}, CAPTION),
    "arrivals": lambda: plot_arrivals({"pdg": [[1, 5], [2]], "rand:a": [[0]]}, CAPTION),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_and_a_drawing_with_their_caption(name: str, tmp_path: Path):
    save_figure(tmp_path / "figure.png", FIGURES[name]())
    assert {path.name for path in tmp_path.iterdir()} == {"figure.png", "figure.svg"}
    with Image.open(tmp_path / "figure.png") as image:
        assert image.info["Title"] == CAPTION
        colours = image.convert("RGB").getcolors(maxcolors=1 << 24)
        # More than paper, ink and the shades between them.
        assert any(max(colour) - min(colour) > 60 for _, colour in colours or [])
    assert f"<title>{CAPTION}</title>" in (tmp_path / "figure.svg").read_text()


def test_every_experiment_has_a_drawing():
    assert list(experiment_files.DRAWINGS) == list(EXPERIMENTS)
