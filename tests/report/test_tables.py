from __future__ import annotations

import dataclasses
import io

import torch
from rich.console import Console

from feduplink import FullPower, Judgement, Scenario, find_optimum, judge
from feduplink.report.tables import comparison_markdown, comparison_table


def _judgements(csi: torch.Tensor, scenario: Scenario) -> dict[str, Judgement]:
    power = FullPower(scenario).allocate(csi)
    return {"max": judge(power, csi, scenario), "quiet": judge(0 * power, csi, scenario)}


def test_markdown_has_all_figures_that_belong_together(default_csi, default_scenario):
    judgements = _judgements(default_csi, default_scenario)
    lines = comparison_markdown(judgements, default_scenario).splitlines()
    header, rule, full, quiet = (line for line in lines if line.startswith("|"))
    assert header.count("|") == rule.count("|") == full.count("|") == quiet.count("|") == 8
    assert "rate >= 0.7" in header
    assert "EE >= 55" in header
    verdict = judgements["max"]
    assert f"{verdict.objective:.4f}" in full
    assert f"{100 * verdict.weighted_per:.2f} %" in full
    assert "100.0 %" in full
    assert f"open {100 * verdict.shortfall:+.1f}±{100 * verdict.shortfall_error:.1f}" in full


def test_what_does_not_exist_is_a_dash(default_csi, default_scenario):
    judgements = _judgements(default_csi, default_scenario)
    quiet = comparison_markdown(judgements, default_scenario).splitlines()[5]
    assert quiet.split(" | ")[2] == "-"
    assert "nan" not in quiet


def test_thresholds_by_worker_are_a_range(default_csi):
    scenario = Scenario(rate_min=(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))
    assert ">= 0.2 to 0.9" in comparison_markdown(_judgements(default_csi, scenario), scenario)


def test_the_table_fits_a_terminal(default_csi, default_scenario):
    judgements = _judgements(default_csi, default_scenario)
    judgements["openloop"] = judgements.pop("quiet")
    printed = io.StringIO()
    Console(width=80, file=printed).print(comparison_table(judgements, default_scenario))
    assert "…" not in printed.getvalue()
    assert f"open {100 * judgements['max'].shortfall:+.1f}" in printed.getvalue()


def _cells(markdown: str, name: str) -> list[str]:
    (row,) = (line for line in markdown.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_only_who_meets_the_constraints_has_a_distance_to_the_optimum(default_scenario):
    """Full power misses one here and would be above; who is silent meets all."""
    scenario = default_scenario.replace(workers=2, weights="ones", rate_min=0.0, ee_min=100.0)
    csi = torch.tensor([[1e4, 1.0], [1.0, 1e4]]).expand(3, 2, 2)
    power = FullPower(scenario).allocate(csi)
    judgements = {"max": judge(power, csi, scenario), "quiet": judge(0 * power, csi, scenario)}
    judgements["short by chance"] = dataclasses.replace(judgements["max"], shortfall=1e-4)
    judgements["met up to rounding"] = dataclasses.replace(judgements["max"], shortfall=1e-12)
    optimum = find_optimum(scenario.replace(ee_min=0.0), csi, budget_s=1)
    assert judgements["max"].violation == 0
    text = comparison_markdown(judgements, scenario, optimum)
    assert _cells(text, "max")[2] == "0.0000"
    assert _cells(text, "met up to rounding")[2] == "0.0000"
    assert _cells(text, "quiet")[2] == f"{optimum.objective:.4f}"
    assert _cells(text, "short by chance")[2] == "-"
    assert _cells(text, "optimum")[2] == "0.0000"
    assert "meet every constraint on these very channels" in text
    assert f"exceeds {optimum.upper_bound:.4f}: proved, {optimum.gap:.4f} above" in text


def test_an_optimum_in_which_a_worker_is_never_heard(default_scenario):
    """Under proportional fairness that is −∞, and nothing can be said relative to it."""
    scenario = default_scenario.replace(
        workers=2, utility="proportional-fairness", rate_min=(30.0, 0.0), ee_min=0.0
    )
    csi = torch.tensor([[1e4, 1.0], [1.0, 1e4]]).expand(3, 2, 2)
    optimum = find_optimum(scenario, csi, budget_s=0)
    text = comparison_markdown({"max": optimum.solution.judgement}, scenario, optimum)
    assert _cells(text, "max")[1:3] == ["-inf", "-"]
    assert "none was found that lets every worker be heard" in text
    assert "nan" not in text
