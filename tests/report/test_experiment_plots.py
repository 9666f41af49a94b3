"""Figures of federated histories and training runs, from made-up results."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from experiments.made import federated, history
from feduplink import Scenario
from feduplink.reporting.federated import plot_arrivals, plot_averages, plot_costs
from feduplink.reporting.style import StyledFigure, save_figure
from feduplink.reporting.training import plot_convergences
from feduplink.training import Epoch

CAPTION = "What there is to see"

REACHED = {"rate": (1.0, math.nan), "energy_efficiency": (60.0, 70.0)}
EPOCHS = [Epoch(n, 0.5, 0.5, n % 2, n == 0, REACHED, {}) for n in range(3)]
HISTORIES = {"pdg": [EPOCHS, EPOCHS], "pdm": [EPOCHS]}

#: Models that diverge, and that are perfect.
FEDERATIONS = federated(
    exact_average={"ideal": 0.1, "rand": math.nan, "orth": 0.3},
    published_average={"ideal": 0.0, "rand": math.inf},
)
COSTS = history({"ideal": 0.1, "max": 0.2, "orth": 0.3}, {"max": (9.0, 1.0), "orth": (0.0, 2.0)})

FIGURES: dict[str, Callable[[], StyledFigure]] = {
    "convergences": lambda: plot_convergences(
        HISTORIES, {"optimum": 0.7}, Scenario(workers=2), CAPTION
    ),
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
