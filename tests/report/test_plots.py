from __future__ import annotations

from pathlib import Path

import matplotlib
import pytest
from PIL import Image

from feduplink import FullPower, Orthogonal, Scenario, Training, TrainingData, TrainingSettings
from feduplink.comparison import compare
from feduplink.policies import GraphPolicy
from feduplink.report.comparison import plot_comparison
from feduplink.report.convergence import plot_convergence
from feduplink.report.histogram import plot_power_histogram
from feduplink.report.style import figure


def _is_a_picture(path: Path) -> bool:
    with Image.open(path) as image:
        colours = image.convert("RGB").getcolors(maxcolors=1 << 24)
    return image.format == "PNG" and image.width > 500 and colours is not None and len(colours) > 20


def test_plots_of_a_comparison(tmp_path: Path, default_csi, default_scenario):
    policies = {"max": FullPower(default_scenario), "orth": Orthogonal(default_scenario)}
    outcomes = compare(policies, default_csi, default_scenario)
    judgements = {name: outcome.judgement for name, outcome in outcomes.items()}
    powers = {name: outcome.power for name, outcome in outcomes.items()}
    plot_comparison(tmp_path / "comparison.png", judgements)
    plot_power_histogram(tmp_path / "histogram.png", powers, default_scenario)
    assert _is_a_picture(tmp_path / "comparison.png")
    assert _is_a_picture(tmp_path / "histogram.png")


def test_plots_of_silence(tmp_path: Path, default_csi):
    """Thresholds nobody reaches, so that nobody transmits."""
    scenario = Scenario(rate_min=40)
    outcomes = compare({"orth": Orthogonal(scenario)}, default_csi, scenario)
    assert outcomes["orth"].judgement.participation == 0
    plot_comparison(tmp_path / "a.png", {"orth": outcomes["orth"].judgement})
    plot_power_histogram(tmp_path / "b.png", {"orth": outcomes["orth"].power}, scenario)
    assert _is_a_picture(tmp_path / "a.png")


@pytest.mark.parametrize("rate_min", [0.7, (0.7, 0.6, 0.5)])
def test_plot_of_convergence(tmp_path: Path, default_csi, rate_min):
    scenario = Scenario(workers=3, rate_min=rate_min)
    csi = default_csi[:20, :3, :3]
    training = Training(
        GraphPolicy.initialised(scenario), TrainingData(csi, csi), TrainingSettings(epochs=3)
    )
    training.run()
    plot_convergence(tmp_path / "convergence.png", training.history, training.problem, "pdg")
    assert _is_a_picture(tmp_path / "convergence.png")


def test_drawing_leaves_matplotlib_as_it_was(tmp_path: Path):
    before = dict(matplotlib.rcParams)
    with figure(tmp_path / "a.png", 4, 3) as drawing:
        drawing.subplots().plot([0, 1])
    assert dict(matplotlib.rcParams) == before


def test_a_failed_drawing_leaves_no_file(tmp_path: Path):
    with pytest.raises(RuntimeError), figure(tmp_path / "a.png", 4, 3):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def _draw(path: Path) -> None:
    with figure(path, 4, 3, "A line") as drawing:
        drawing.subplots().plot([0, 1], [0, 1])


def test_equal_figures_are_equal_files(tmp_path: Path):
    _draw(tmp_path / "a.png")
    _draw(tmp_path / "b.png")
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "a.svg", "b.png", "b.svg"}
    for suffix in (".png", ".svg"):
        first, second = (tmp_path / "a").with_suffix(suffix), (tmp_path / "b").with_suffix(suffix)
        assert first.read_bytes() == second.read_bytes()


def test_figures_carry_their_caption_and_no_date(tmp_path: Path):
    _draw(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert image.info["Title"] == "A line"
    text = (tmp_path / "a.svg").read_text()
    assert "<title>A line</title>" in text
    assert "<dc:date>" not in text
    assert "<text" not in text
