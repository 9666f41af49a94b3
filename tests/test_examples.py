"""The examples are short, and the command lines in their docstrings run."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import shlex
from pathlib import Path

import pytest
import torch

from feduplink import FullPower, Scenario, draw_csi, link, load_policy, save_policy
from feduplink.cli.command_line import main
from feduplink.federated import Arrivals, UnbiasedAverage
from feduplink.registry import POLICIES

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))
LONGEST = 39

#: Appended to the command lines; a later option overrides an earlier one.
SMALL = {
    "evaluate": ["--channels-per-split", "30"],
    "optimum": ["--channels-per-split", "10", "--max-boxes", "1000"],
    "train": ["--channels-per-split", "30", "--epochs", "2"],
    "federate": ["--rounds", "2"],
}


def commands(file: Path) -> list[list[str]]:
    """The indented command lines of a file's docstring, as words after ``feduplink``."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("    feduplink")]


COMMANDS = [
    pytest.param(words, id=f"{file.stem}-{words[0]}-{number}")
    for file in FILES
    for number, words in enumerate(commands(file))
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_short_and_has_command_lines(file: Path):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= LONGEST
    assert commands(file)
    assert all(f"{file.stem}:" in " ".join(words) for words in commands(file))


def test_the_tutorial_or_contributing_links_every_example():
    pages = [EXAMPLES.parent / "docs" / "tutorial.md", EXAMPLES.parent / "CONTRIBUTING.md"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert [file.name for file in FILES if f"examples/{file.name})" not in text] == []


@pytest.mark.parametrize("words", COMMANDS)
def test_the_command_lines_of_an_example_run(words: list[str], tmp_path: Path):
    out = tmp_path / "run"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(tmp_path):
        assert main([*words, *SMALL[words[0]], "--out", str(out)]) == 0
    assert json.loads((out / "metrics.json").read_text(encoding="utf-8"))["seed"] == 0


def test_the_average_power_example_is_feasible_and_bounded(tmp_path: Path):
    limited = ["--constraints", "average_power:AveragePower <= 0.001", "--workers", "3"]
    small = ["--channels-per-split", "20", "--max-boxes", "20000", "--out", str(tmp_path)]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["optimum", *limited, *small]) == 0
    best = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))["optimum"]
    # The limit is active.
    assert 0.0009 < best["power_max"] <= 0.001 * (1 + 1e-9)
    assert best["objective"] <= best["upper_bound"] <= best["objective"] + 0.02


def test_the_wmmse_example_beats_full_power_and_can_be_saved(tmp_path: Path):
    scenario = Scenario(interference=8, objective="rate", weights="ones")
    csi = draw_csi(scenario, 100, torch.Generator().manual_seed(0))
    policy = POLICIES.find("wmmse_policy:Wmmse")(scenario)
    power = policy.allocate(csi)
    rates = [
        link.rate(link.sinr(csi, found)).sum(-1)
        for found in (power, FullPower(scenario).allocate(csi))
    ]
    # The iterations start at full power and never lower the sum rate of a channel.
    assert (rates[0] >= rates[1] - 1e-4).all()
    assert float(rates[0].mean()) > 2 * float(rates[1].mean())
    restored = load_policy(save_policy(policy, tmp_path))
    torch.testing.assert_close(restored.allocate(csi), power, rtol=0, atol=0)


@pytest.mark.parametrize("antennas", [4, 10])
def test_the_mmse_example_has_a_larger_sinr_than_mrc_at_full_power(antennas: int):
    found = {}
    for name in ("Mrc", "Mmse"):
        scenario = Scenario(antennas=antennas, channel_model=f"complex_gains:{name}")
        csi = draw_csi(scenario, 200, torch.Generator().manual_seed(0))
        found[name] = link.sinr(csi, FullPower(scenario).allocate(csi))
    assert (found["Mmse"] >= found["Mrc"] * (1 - 1e-3)).all()
    assert float(found["Mmse"].median()) > 1.5 * float(found["Mrc"].median())


def test_mmse_and_mrc_examples_agree_for_one_worker():
    """Without interference MMSE is MRC: H = ‖h‖², whose mean is n_R times 50 dB."""
    found = [
        draw_csi(
            Scenario(workers=1, antennas=4, channel_model=f"complex_gains:{name}"),
            4000,
            torch.Generator().manual_seed(0),
        )
        for name in ("Mrc", "Mmse")
    ]
    torch.testing.assert_close(*found, rtol=1e-3, atol=0)
    assert float(found[0].mean()) == pytest.approx(4e5, rel=0.05)


def test_the_unbiased_average_example_agrees_with_the_shipped_one():
    own = importlib.import_module("unbiased_average").Unbiased()
    success = torch.tensor([0.9, 0.5, 0.2, 0.0], dtype=torch.float64)
    sizes = torch.tensor([100.0, 200.0, 300.0, 400.0], dtype=torch.float64)
    present = torch.ones(4, dtype=torch.bool)
    for arrived in ([True, False, True, False], [False] * 4):
        arrivals = Arrivals(0, sizes, present, torch.tensor(arrived), success)
        torch.testing.assert_close(
            own.coefficients(arrivals), UnbiasedAverage().coefficients(arrivals)
        )
    nobody = Arrivals(0, sizes, present, ~present, torch.zeros(4, dtype=torch.float64))
    assert (own.coefficients(nobody) == 0).all()


def test_the_momentum_example_accumulates_equal_updates():
    """The velocity of equal updates Δ grows as Δ, 1.9 Δ, 2.71 Δ."""
    momentum = importlib.import_module("server_momentum").Momentum()
    everyone = torch.ones(2, dtype=torch.bool)
    arrivals = Arrivals(0, torch.ones(2).double(), everyone, everyone, torch.ones(2).double())
    model = {"w": torch.zeros(1)}
    state = momentum.initial_state(model)
    for expected in (1.0, 2.9, 5.61):
        local = {"w": model["w"] + torch.ones(2, 1)}
        model = momentum.aggregate(model, local, arrivals, state)
        assert float(model["w"]) == pytest.approx(expected)
