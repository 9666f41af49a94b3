from __future__ import annotations

from pathlib import Path

import pytest

from feduplink import Scenario, evaluate, load_policy
from feduplink.channels import make_channels
from feduplink.cli import demo

from .conftest import Run, metrics_of, refused


def test_demo_compares_all_policies(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(demo, "_EPOCHS", 2)
    monkeypatch.setattr(demo, "_BUDGET_S", 1.0)
    monkeypatch.setattr(demo, "_ROUNDS", 2)
    ended = run("demo", "--workers", 3, "--out", "here")
    assert ended.status == 0
    metrics = metrics_of(tmp_path / "here")
    assert set(metrics["policies"]) == {
        "rand",
        "orth",
        "max",
        "openloop",
        "pdm",
        "pdg",
        "dual",
        "pdx",
    }
    scenario = Scenario(workers=3)
    test = make_channels(scenario).test
    for name in ("pdm", "pdg"):
        saved = load_policy(tmp_path / "here" / name)
        assert metrics["policies"][name] == evaluate(saved, test, scenario).as_metrics()
        assert (tmp_path / "here" / name / "convergence.png").stat().st_size > 1000
    best = metrics["optimum"]
    for name, figures in metrics["policies"].items():
        assert not figures["feasible"] or figures["objective"] < best["upper_bound"] + 2e-3, name
    assert "has the highest objective" in ended.out
    assert "here/pdg" in ended.out
    federated = metrics_of(tmp_path / "here/federated")
    assert list(federated["policies"]) == [
        "ideal",
        "tdma",
        "ofdma",
        "max",
        "openloop",
        "pdg",
        "pdx",
    ]
    assert federated["provenance"]["seconds"] < metrics["provenance"]["seconds"]
    page = (tmp_path / "here/report.html").read_text()
    assert page.count("<section") == 4
    assert page.count("<figure") == 2 + 2 * 2 + 2
    assert "here/report.html" in ended.out


def test_what_the_end_needs_is_checked_at_the_beginning(run: Run, tmp_path: Path):
    assert "cannot share" in refused(run("demo", "--workers", 1024))
    assert list(tmp_path.iterdir()) == []
