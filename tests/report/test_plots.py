from __future__ import annotations

import io
from pathlib import Path

import matplotlib
import pytest
from PIL import Image

from feduplink import (
    FullPower,
    Orthogonal,
    Scenario,
    Training,
    TrainingData,
    TrainingSettings,
    evaluate,
)
from feduplink.policies import GraphPolicy
from feduplink.reporting.comparison import plot_comparison, plot_power_histogram
from feduplink.reporting.style import StyledFigure, figure, save_figure
from feduplink.reporting.training import plot_convergence


def _is_a_picture(drawing: StyledFigure) -> bool:
    """In a notebook."""
    with Image.open(io.BytesIO(drawing._repr_png_())) as image:
        colours = image.convert("RGB").getcolors(maxcolors=1 << 24)
    return image.format == "PNG" and image.width > 500 and colours is not None and len(colours) > 20


def test_plots_of_a_comparison(default_csi, default_scenario):
    policies = {"max": FullPower(default_scenario), "orth": Orthogonal(default_scenario)}
    outcomes = evaluate(default_scenario, policies, channels=default_csi)
    judgements = {name: outcome.judgement for name, outcome in outcomes.items()}
    powers = {name: outcome.power for name, outcome in outcomes.items()}
    assert _is_a_picture(plot_comparison(judgements))
    assert _is_a_picture(plot_power_histogram(powers, default_scenario))


def test_plots_of_silence(default_csi):
    """Thresholds nobody reaches, so that nobody transmits."""
    scenario = Scenario(rate_min=40)
    outcomes = evaluate(scenario, {"orth": Orthogonal(scenario)}, channels=default_csi)
    assert outcomes["orth"].judgement.participation == 0
    assert _is_a_picture(plot_comparison({"orth": outcomes["orth"].judgement}))
    assert _is_a_picture(plot_power_histogram({"orth": outcomes["orth"].power}, scenario))


@pytest.mark.parametrize("rate_min", [0.7, (0.7, 0.6, 0.5)])
def test_plot_of_convergence(default_csi, rate_min):
    scenario = Scenario(workers=3, rate_min=rate_min)
    csi = default_csi[:20, :3, :3]
    training = Training(
        GraphPolicy.initialised(scenario), TrainingData(csi, csi), TrainingSettings(epochs=3)
    )
    training.run()
    assert _is_a_picture(plot_convergence(training.history, training.problem, "pdg"))


def test_drawing_and_saving_leave_matplotlib_as_it_was(tmp_path: Path):
    before = dict(matplotlib.rcParams)
    save_figure(tmp_path / "a.png", _line())
    assert dict(matplotlib.rcParams) == before


def test_a_figure_keeps_its_style_where_the_callers_is_another(tmp_path: Path):
    save_figure(tmp_path / "a.png", _line())
    with matplotlib.rc_context({"font.size": 20, "svg.fonttype": "none", "savefig.dpi": 30}):
        drawing = _line()
        save_figure(tmp_path / "b.png", drawing)
    for suffix in (".png", ".svg"):
        first, second = (tmp_path / "a").with_suffix(suffix), (tmp_path / "b").with_suffix(suffix)
        assert first.read_bytes() == second.read_bytes()


def test_a_figure_that_cannot_be_drawn_leaves_no_file(tmp_path: Path):
    drawing = _line()
    drawing.text(0.5, 0.5, "$\\no such command$")
    with pytest.raises(ValueError, match="no such command"):
        save_figure(tmp_path / "a.png", drawing)
    assert list(tmp_path.iterdir()) == []


def _line() -> StyledFigure:
    with figure(4, 3, "A line") as drawing:
        drawing.subplots().plot([0, 1], [0, 1])
    return drawing


def test_equal_figures_are_equal_files(tmp_path: Path):
    save_figure(tmp_path / "a.png", _line())
    save_figure(tmp_path / "b.png", _line())
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "a.svg", "b.png", "b.svg"}
    for suffix in (".png", ".svg"):
        first, second = (tmp_path / "a").with_suffix(suffix), (tmp_path / "b").with_suffix(suffix)
        assert first.read_bytes() == second.read_bytes()


def test_figures_carry_their_caption_and_no_date(tmp_path: Path):
    save_figure(tmp_path / "a.png", _line())
    with Image.open(tmp_path / "a.png") as image:
        assert image.info["Title"] == "A line"
    text = (tmp_path / "a.svg").read_text()
    assert "<title>A line</title>" in text
    assert "<dc:date>" not in text
    assert "<text" not in text
