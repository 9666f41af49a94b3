from __future__ import annotations

import io

import torch
from rich.console import Console

from feduplink import FullPower, Judgement, Scenario, judge
from feduplink.report.tables import comparison_markdown, comparison_table


def _judgements(csi: torch.Tensor, scenario: Scenario) -> dict[str, Judgement]:
    power = FullPower(scenario).allocate(csi)
    return {"max": judge(power, csi, scenario), "quiet": judge(0 * power, csi, scenario)}


def test_markdown_has_all_figures_that_belong_together(default_csi, default_scenario):
    judgements = _judgements(default_csi, default_scenario)
    lines = comparison_markdown(judgements, default_scenario).splitlines()
    header, rule, full, quiet = (line for line in lines if line.startswith("|"))
    assert header.count("|") == rule.count("|") == full.count("|") == quiet.count("|") == 8
    assert "min rate >= 0.7" in header
    assert "min EE >= 55" in header
    verdict = judgements["max"]
    assert f"{verdict.objective:.4f}" in full
    assert f"{100 * verdict.weighted_per:.2f} %" in full
    assert "100.0 %" in full
    assert f"no, {100 * verdict.violation:.1f} % short" in full


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
    assert f"no, {100 * judgements['max'].violation:.1f} % short" in printed.getvalue()
