"""Table and plots of the judgements of policies."""

from __future__ import annotations

import dataclasses
import io
import math

import pytest
import torch
from rich.console import Console

from drawings import is_picture, rendered, written
from feduplink import (
    FullPower,
    Judgement,
    Optimum,
    Orthogonal,
    Scenario,
    evaluate,
    judge,
    set_units,
)
from feduplink.optimum import find_optimum
from feduplink.reporting.comparison import (
    comparison_table,
    plot_comparison,
    plot_powers,
)
from feduplink.tables import terminal_table


def _judgements(csi: torch.Tensor, scenario: Scenario) -> dict[str, Judgement]:
    power = FullPower(scenario).allocate(csi)
    return {"max": judge(scenario, csi, power), "quiet": judge(scenario, csi, 0 * power)}


@pytest.fixture(scope="module")
def optimum(default_csi, default_scenario) -> Optimum:
    return find_optimum(default_scenario, default_csi[:8], max_boxes=5000)


def test_a_row_of_the_markdown_table_has_all_figures(default_csi, default_scenario):
    judgements = _judgements(default_csi, default_scenario)
    lines = comparison_table(judgements, default_scenario).markdown().splitlines()
    header, rule, full, quiet = (line for line in lines if line.startswith("|"))
    assert header == (
        "| policy | objective | PER | active | rate >= 1.01 bit/s/Hz | EE >= 14.3 Mbit/J | margin "
        "| verdict |"
    )
    assert header.count("|") == rule.count("|") == full.count("|") == quiet.count("|") == 9
    verdict = judgements["max"]
    assert full.strip("| ").split(" | ") == [
        "max",
        f"{verdict.objective:.4f}",
        f"{100 * verdict.weighted_per:.2f} %",
        "100 %",
        f"{verdict.constraints['rate'].worst / math.log(2):.2f}",
        f"{verdict.constraints['energy_efficiency'].worst * 0.18 / math.log(2):.1f}",
        f"{100 * verdict.margin:+.0f} ± {100 * verdict.margin_ci:.0f} %",
        "inconclusive",  # with a hundred channels
    ]
    assert quiet.strip("| ").split(" | ")[-2:] == ["-", "silent"]


@pytest.mark.parametrize(
    ("feasible", "shortfall", "error", "written"),
    [
        (True, -0.0304, 0.0171, "+3.0 ± 1.7 % | feasible"),
        (True, -2.98, 0.193, "+298 ± 19 % | feasible"),
        (False, 0.25, 0.0496, "-25.0 ± 5.0 % | infeasible"),
        (None, 0.0101, 0.0202, "-1.0 ± 2.0 % | inconclusive"),
        (None, 0.0, math.inf, "+0.0 ± ∞ % | inconclusive"),
        (True, 0.0, 0.0, "- | feasible"),  # nothing is constrained
    ],
)
def test_the_verdict_comes_with_the_smallest_margin_and_its_confidence_interval(
    feasible, shortfall, error, written, default_csi, default_scenario
):
    judgement = dataclasses.replace(
        _judgements(default_csi, default_scenario)["max"],
        feasible=feasible,
        shortfall=shortfall,
        shortfall_error=error,
    )
    (row,) = [
        line
        for line in comparison_table({"max": judgement}, default_scenario).markdown().splitlines()
        if line.startswith("| max")
    ]
    assert row.endswith(f" | {written} |")


def test_missing_figures_are_dashes(default_csi, default_scenario):
    judgements = _judgements(default_csi, default_scenario)
    quiet = comparison_table(judgements, default_scenario).markdown().splitlines()[5]
    assert quiet.startswith("| quiet |")
    assert quiet.split(" | ")[2] == "-"
    assert "nan" not in quiet


def test_values_per_worker_are_written_as_a_range(default_csi):
    listed = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    scenario = Scenario(rate_min=listed, pmax_dbw=tuple(-10 * value for value in listed))
    text = comparison_table(_judgements(default_csi, scenario), scenario).markdown()
    assert "rate >= 0.289 to 1.3 bit/s/Hz" in text
    assert "Pmax 21 to 28 dBm" in text


@pytest.fixture
def nats():
    set_units("nats")
    yield
    set_units("engineering")


@pytest.mark.usefixtures("nats")
def test_the_units_of_the_paper_can_be_chosen(default_csi, default_scenario):
    judgements = _judgements(default_csi, default_scenario)
    text = comparison_table(judgements, default_scenario).markdown()
    assert "Pmax -20 dBW" in text
    assert "| rate >= 0.7 nats/s/Hz | EE >= 55 nats/s/Hz/W |" in text
    assert _cells(text, "max")[4] == f"{judgements['max'].constraints['rate'].worst:.3f}"


def test_an_objective_has_its_unit(default_csi, default_scenario):
    """A sum rate: values, gaps and the bound are in bit/s/Hz."""
    scenario = default_scenario.replace(
        workers=2, objective="rate", weights="ones", rate_min=0.0, ee_min=0.0
    )
    csi = default_csi[:4, :2, :2]
    judgements = {"max": judge(scenario, csi, FullPower(scenario).allocate(csi))}
    optimum = find_optimum(scenario, csi, max_boxes=5000)
    text = comparison_table(judgements, scenario, optimum).markdown()
    assert "| policy | objective, bit/s/Hz | gap |" in text
    bits = judgements["max"].objective / math.log(2)
    assert _cells(text, "max")[1] == f"{bits:.4f}"
    assert f"these channels: {optimum.upper_bound / math.log(2):.4f} bit/s/Hz" in text
    drawing = rendered(plot_comparison(judgements, scenario, optimum))
    assert drawing.axes[0].get_xlabel() == "objective, bit/s/Hz"
    assert f"max (full power)  {bits:.4f}" in written(drawing)


def test_a_utility_of_logarithms_has_no_unit(default_csi, default_scenario):
    scenario = default_scenario.replace(objective="rate", utility="proportional-fairness")
    text = comparison_table(_judgements(default_csi, scenario), scenario).markdown()
    assert "| policy | objective | PER |" in text


def test_user_defined_constraints_have_columns_and_units(default_csi):
    """Full power is 10 mW on average."""
    scenario = Scenario(
        constraints=(
            "link.own_measures:AveragePower <= 0.005",
            "psr >= 0.5",
            "link.own_measures:Sinr >= 2",
        )
    )
    text = comparison_table(_judgements(default_csi, scenario), scenario).markdown()
    header = next(line for line in text.splitlines() if line.startswith("| policy"))
    assert "| EE >= 14.3 Mbit/J | P <= 0.005 W | PSR >= 0.5 | sinr >= 2 |" in header
    assert _cells(text, "max")[6] == "0.01000"
    assert _cells(text, "quiet")[6] == "0.00000"
    assert (
        "Rate (bit/s/Hz), EE (Mbit/J), PSR and sinr: the worst worker's mean while it "
        "transmits." in text
    )
    assert "P (W): the worst worker's mean over all rounds." in text


def test_remarks_and_notes_follow_the_table(default_csi, default_scenario, optimum):
    judgements = _judgements(default_csi, default_scenario)
    table = comparison_table(judgements, default_scenario, optimum, ["max was made elsewhere"])
    *_, last, _, note = table.markdown().splitlines()
    assert f"these channels: {optimum.upper_bound:.4f} (gap {optimum.gap:.4f}" in last
    assert note == "max was made elsewhere."
    printed = _printed(judgements, default_scenario, optimum, ["max was made elsewhere"])
    assert printed.rstrip().endswith("max was made elsewhere")


def _printed(judgements, scenario, optimum=None, notes=()) -> str:
    out = io.StringIO()
    table = terminal_table(comparison_table(judgements, scenario, optimum, notes))
    Console(width=80, file=out).print(table)
    return out.getvalue()


@pytest.mark.parametrize("with_optimum", [False, True])
def test_the_table_fits_a_terminal(default_csi, default_scenario, optimum, with_optimum):
    judgements = _judgements(default_csi, default_scenario)
    judgements["openloop"] = judgements.pop("quiet")
    judgements["rand:unselected"] = judgements["max"]
    printed = _printed(judgements, default_scenario, optimum if with_optimum else None)
    assert "…" not in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    words = ("feasible", "infeasible", "inconclusive", "silent")
    rows = [line.split()[0] for line in printed.splitlines() if line.split()[-1] in words]
    assert rows[:2] == ["max", "openloop"]
    assert ("optimum" in rows) == with_optimum
    header = printed.splitlines()[1:4]
    for word in ("objective", "PER", "active", "margin", "verdict"):
        assert word in " ".join(header)


def test_the_table_has_the_number_of_channels_that_the_verdicts_rest_on(
    default_csi, default_scenario
):
    judged = _judgements(default_csi, default_scenario)["max"]
    more = dataclasses.replace(judged, verdict_channels=4000, test_shortfall=judged.shortfall)
    text = comparison_table({"max": judged, "pdx": more}, default_scenario).markdown()
    assert "Channels behind constraints, margin and verdict: max 100; pdx 4,000." in text
    alone = comparison_table({"max": judged}, default_scenario).markdown()
    assert "Channels behind" not in alone


def test_a_proof_says_that_it_stopped_at_its_limit(default_csi, default_scenario):
    csi = default_csi[:8]
    stopped = find_optimum(default_scenario, csi, max_boxes=1, gap=1e-7)
    assert stopped.gap > 1e-7
    sentence = f"stopped after {stopped.certificate.boxes:,} boxes (limit); gap asked 1e-07"
    assert stopped.stopped == stopped.as_metrics()["stopped"] == sentence
    judgements = _judgements(csi, default_scenario)
    assert sentence in comparison_table(judgements, default_scenario, stopped).markdown()
    timed = find_optimum(default_scenario, csi, budget_s=0, gap=1e-7)
    assert "s (limit); gap asked" in timed.stopped


def _cells(markdown: str, name: str) -> list[str]:
    (row,) = (line for line in markdown.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_only_feasible_policies_have_a_distance_to_the_optimum(default_scenario):
    """Full power violates one constraint and would be above the optimum."""
    scenario = default_scenario.replace(workers=2, weights="ones", rate_min=0.0, ee_min=100.0)
    csi = torch.tensor([[1e4, 1.0], [1.0, 1e4]]).expand(3, 2, 2)
    power = FullPower(scenario).allocate(csi)
    judgements = {"max": judge(scenario, csi, power), "quiet": judge(scenario, csi, 0 * power)}
    judgements["short by chance"] = dataclasses.replace(judgements["max"], shortfall=1e-4)
    judgements["met up to rounding"] = dataclasses.replace(judgements["max"], shortfall=1e-12)
    optimum = find_optimum(scenario.replace(ee_min=0.0), csi, max_boxes=20_000)
    assert judgements["max"].violation == 0
    text = comparison_table(judgements, scenario, optimum).markdown()
    assert _cells(text, "max")[2] == "0.0000"
    assert _cells(text, "met up to rounding")[2] == "0.0000"
    assert _cells(text, "quiet")[2] == f"{optimum.objective:.4f}"
    assert _cells(text, "short by chance")[2] == "-"
    assert _cells(text, "optimum")[2] == "0.0000"
    assert "satisfy all constraints on the test channels" in text
    assert f"{optimum.upper_bound:.4f} (gap {optimum.gap:.4f})" in text


def test_an_infinite_optimum_is_written_without_relative_figures(default_scenario):
    """Under proportional fairness an inaudible worker makes it −∞."""
    scenario = default_scenario.replace(
        workers=2, utility="proportional-fairness", rate_min=(30.0, 0.0), ee_min=0.0
    )
    csi = torch.tensor([[1e4, 1.0], [1.0, 1e4]]).expand(3, 2, 2)
    optimum = find_optimum(scenario, csi, max_boxes=0)
    text = comparison_table({"max": optimum.solution.judgement}, scenario, optimum).markdown()
    assert _cells(text, "max")[1:3] == ["-inf", "-"]
    assert "none was found that lets every worker be heard" in text
    assert "nan" not in text


pytestmark = pytest.mark.filterwarnings("error")


PMAX_W = Scenario().max_power


def test_powers_are_a_cumulative_distribution_with_shares_of_silence_and_pmax():
    power = torch.tensor([[0.0, PMAX_W], [0.5 * PMAX_W, PMAX_W]])
    drawing = rendered(plot_powers({"max": power}, Scenario()))
    texts = written(drawing)
    assert "max (full power): silent 25 %, at Pmax 50 %" in texts
    assert {"transmit power, dBm", "Pmax = 10 dBm"} <= set(texts)
    curve = drawing.axes[0].lines[0]
    dbm, share = curve.get_xdata(), curve.get_ydata()
    assert (dbm[0], dbm[-1]) == pytest.approx((-30, 10))
    assert share[dbm < 6.9] == pytest.approx(25)  # the silent ones; 5 mW are 6.99 dBm
    assert share[(dbm > 7.1) & (dbm < 9.9)] == pytest.approx(50)
    assert share[-1] == 100


def test_objectives_are_labelled_and_all_ratios_are_on_the_axis(default_csi, default_scenario):
    outcome = evaluate(
        default_scenario, {"orth": Orthogonal(default_scenario)}, channels=default_csi
    )
    made = outcome["orth"].judgement
    judgements = {
        "orth": made,
        "openloop": dataclasses.replace(made, objective=0.9706, feasible=False),
        "pdx": dataclasses.replace(made, objective=0.9761),
    }
    drawing = rendered(plot_comparison(judgements, default_scenario))
    texts = written(drawing)
    assert {"openloop (open loop)  0.9706", "pdx  0.9761"} <= set(texts)
    assert "infeasible" in texts
    assert any(text.startswith("infeasible, ") for text in texts)  # beside the row
    rate = made.constraints["rate"]
    ratio = float((rate.expected / rate.constraint.limit).nan_to_num(math.inf).min())
    axes = drawing.axes[2]
    assert axes.lines[0].get_xdata() == pytest.approx([ratio])
    assert axes.get_xlim()[0] < ratio < axes.get_xlim()[1]


def test_margins_have_their_confidence_interval(default_csi, default_scenario):
    judgements = _judgements(default_csi, default_scenario)
    full = dataclasses.replace(judgements["max"], shortfall=-3.0, shortfall_error=0.5)
    drawing = rendered(plot_comparison({**judgements, "max": full}, default_scenario))
    margin = drawing.axes[1]
    interval, full_mark, quiet_mark = margin.lines[:3]
    assert interval.get_xdata() == pytest.approx([250, 350])
    assert full_mark.get_xdata() == pytest.approx([300])
    assert margin.get_xlim()[0] < -1 < 350 < margin.get_xlim()[1]
    assert quiet_mark.get_marker() == "x"
    assert math.isnan(quiet_mark.get_xdata()[0])  # a silent policy has no margin
    assert {"silent", "silent, 0 % active"} <= set(written(drawing))


def test_every_constraint_has_a_panel(default_csi):
    """The mean power at full power is 10 mW, twice the limit."""
    scenario = Scenario(constraints="link.own_measures:AveragePower <= 0.005")
    outcomes = evaluate(scenario, {"max": FullPower(scenario)}, channels=default_csi)
    drawing = rendered(plot_comparison({"max": outcomes["max"].judgement}, scenario))
    labels = [axes.get_xlabel() for axes in drawing.axes]
    assert labels[2:] == [
        "worst worker's\nrate / threshold",
        "worst worker's\nEE / threshold",
        "worst worker's\nP / limit",
    ]
    assert drawing.axes[4].lines[0].get_xdata() == pytest.approx([2.0])


def test_the_optimum_has_a_filled_mark(default_csi, default_scenario):
    """It is feasible on its channels, where the verdict of a policy is inconclusive."""
    csi = default_csi[:20]
    outcomes = evaluate(default_scenario, {"max": FullPower(default_scenario)}, channels=csi)
    optimum = find_optimum(default_scenario, csi, max_boxes=0)
    assert optimum.solution.judgement.feasible is None
    drawing = rendered(plot_comparison(outcomes.judgements, default_scenario, optimum))
    mark = drawing.axes[0].lines[-1]
    assert mark.get_fillstyle() == "full"
    assert mark.get_markerfacecolor() != "white"


def test_plots_of_a_comparison_are_pictures(default_csi, default_scenario):
    policies = {"max": FullPower(default_scenario), "orth": Orthogonal(default_scenario)}
    outcomes = evaluate(default_scenario, policies, channels=default_csi)
    judgements = {name: outcome.judgement for name, outcome in outcomes.items()}
    powers = {name: outcome.power for name, outcome in outcomes.items()}
    assert is_picture(plot_comparison(judgements, default_scenario))
    assert is_picture(plot_powers(powers, default_scenario))


def test_plots_of_silent_policies_are_pictures(default_csi):
    """No worker reaches the thresholds, and none transmits."""
    scenario = Scenario(rate_min=40)
    outcomes = evaluate(scenario, {"orth": Orthogonal(scenario)}, channels=default_csi)
    assert outcomes["orth"].judgement.participation == 0
    assert is_picture(plot_comparison({"orth": outcomes["orth"].judgement}, scenario))
    assert is_picture(plot_powers({"orth": outcomes["orth"].power}, scenario))
