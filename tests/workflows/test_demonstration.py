from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from feduplink import InputError, Scenario, load_policy
from feduplink.channels import make_channels
from feduplink.policies import judge_policy
from feduplink.workflows import demo


def test_the_demo_compares_all_policies_and_writes_a_page(tmp_path: Path):
    scenario = Scenario(workers=3)
    said: list[object] = []
    given = {"epochs": 2, "rounds": 2, "runs": 1, "channels_per_split": 1000, "processes": 1}
    shown = demo(scenario, out=tmp_path / "here", **given, tell=said.append)
    metrics = json.loads((tmp_path / "here/metrics.json").read_text())
    assert set(metrics["policies"]) == {
        "rand",
        "orth",
        "max",
        "openloop",
        "pdm",
        "pdg",
        "pdx",
    }
    test = make_channels(scenario).test
    for name in ("pdm", "pdg"):
        saved = load_policy(tmp_path / "here" / name)
        assert metrics["policies"][name] == judge_policy(saved, test, scenario).as_metrics()
        assert (tmp_path / "here" / name / "convergence.png").stat().st_size > 1000
    best = metrics["optimum"]
    for name, figures in metrics["policies"].items():
        assert not figures["feasible"] or figures["objective"] < best["upper_bound"] + 2e-3, name
    texts = "\n".join(map(str, said))
    assert shown.evaluation.findings()
    assert set(shown.evaluation.findings()) <= set(texts.splitlines())
    assert "here/pdg" in texts
    for geometry, federation in shown.federations.items():
        assert federation.scenario.geometry == geometry
        assert list(federation) == ["ideal", "tdma", "orth", "max", "openloop", "pdg", "pdx"]
    page = shown.page.read_text()
    assert page.count("<section") == 1 + 5  # the findings, and a run each
    assert page.count("<figure") == 2 + 2 * 2 + 2 * 2
    assert all(html.escape(finding) in page for finding in shown.evaluation.findings())
    assert "here/report.html" in texts


def test_what_the_end_needs_is_checked_at_the_beginning(tmp_path: Path):
    with pytest.raises(InputError, match="cannot share"):
        demo(Scenario(workers=1024), out=tmp_path / "here")
    assert list(tmp_path.iterdir()) == []
