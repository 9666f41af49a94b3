"""Reprs and notebook displays of results are a line or a short table without whole tensors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from experiments.made import history
from feduplink import (
    DualPolicy,
    FullPower,
    GraphPolicy,
    OpenLoop,
    Optimum,
    Orthogonal,
    PrimalDualLearning,
    Scenario,
    Trainer,
    TrainingSettings,
    draw_channels,
    evaluate,
)
from feduplink.channels import make_channels
from feduplink.lagrangian import DualPoint
from feduplink.optimum import find_optimum
from feduplink.policies import judge_policy, shipped_pdx
from splits import split_channels


@pytest.fixture(scope="module")
def csi() -> Tensor:
    return make_channels(Scenario(workers=3), 30).test


@pytest.fixture(scope="module")
def optimum(csi: Tensor) -> Optimum:
    return find_optimum(Scenario(workers=3), csi, max_boxes=0)


def test_the_repr_of_an_optimum(optimum: Optimum):
    text = repr(optimum)
    assert text.startswith(f"Optimum(objective {optimum.objective:.4f}, proved bound ")
    assert f"{optimum.upper_bound:.4f}" in text
    assert "30 of 3 workers" in text
    assert len(text) < 160
    assert f"<td>{optimum.objective:.4f}</td>" in optimum._repr_html_()


def test_the_reprs_of_solution_and_certificate(optimum: Optimum):
    assert repr(optimum.solution).startswith(f"DualSolution(objective {optimum.objective:.4f}")
    assert f"{len(optimum.solution.steps)} evaluations" in repr(optimum.solution)
    assert f"gap {optimum.certificate.gap:.4f}, 30 channels" in repr(optimum.certificate)
    assert max(map(len, map(repr, (optimum.solution, optimum.certificate)))) < 160


def test_the_repr_of_a_judgement(csi: Tensor):
    scenario = Scenario(workers=3)
    verdict = judge_policy(FullPower(scenario), csi, scenario)
    assert repr(verdict).startswith(f"Judgement(objective {verdict.objective:.4f}, constraints ")
    assert "participation 100.0 %" in repr(verdict)
    assert "<td>100.0 %</td>" in verdict._repr_html_()


def test_a_comparison_is_a_mapping_and_a_table(csi: Tensor):
    scenario = Scenario(workers=3)
    policies = {"max": FullPower(scenario), "<orth>": Orthogonal(scenario)}
    outcomes = evaluate(scenario, policies, channels=csi, optimum=True, max_boxes=1)
    assert list(outcomes) == list(outcomes.judgements) == list(outcomes.powers) == list(policies)
    assert outcomes["max"].judgement.participation == 1.0
    assert "30 channels of 3 workers, Judgement(objective" in repr(outcomes["max"])
    lines = repr(outcomes).splitlines()
    assert lines[0] == "30 of the 30 channels of an array"
    assert lines[1].startswith("3 workers, Pmax 10 dBm")
    assert [line.split()[0] for line in lines[2:5]] == ["policy", "max", "<orth>"]
    assert "<td>&lt;orth&gt;</td>" in outcomes._repr_html_()
    assert outcomes.table().rows[-1][0] == "optimum"


def test_the_repr_of_a_comparison_notes_policies_made_for_another_scenario(csi: Tensor):
    scenario = Scenario(workers=3)
    loud = FullPower(scenario.replace(pmax_dbw=0))
    outcomes = evaluate(scenario, {"max": loud}, channels=csi)
    assert repr(outcomes).splitlines()[-1].startswith("max was made for another scenario: Pmax")


def test_the_reprs_of_channels():
    channels = draw_channels(Scenario(workers=3, antennas=4), 5, torch.Generator().manual_seed(0))
    assert repr(channels) == "Realisations(5 of 3 workers, coefficients of 4 antennas)"
    assert repr(make_channels(Scenario(workers=3), 4)) == (
        "Channels(4 for training, 4 for validation, 4 for test, 3 workers, drawn from the scenario)"
    )


def test_the_reprs_of_policies(optimum: Optimum):
    scenario = Scenario(workers=3)
    assert repr(FullPower(scenario)) == "FullPower(max for 3 workers)"
    assert repr(OpenLoop(scenario, target=10.0, fraction=0.8)) == "OpenLoop(P0 10 W, exponent 0.8)"
    dual = DualPolicy(scenario, DualPoint(optimum.solution.multipliers, optimum.problem.thresholds))
    assert repr(dual) == "DualPolicy(dual for 3 workers, 15 stored numbers)"
    for policy in (GraphPolicy.initialised(scenario), shipped_pdx()):
        assert len(repr(policy)) < 80


def test_the_repr_of_a_trainer(csi: Tensor):
    policy, data = GraphPolicy.initialised(Scenario(workers=3)), split_channels(csi, csi)
    trainer = Trainer(PrimalDualLearning(policy, data, TrainingSettings(epochs=2)))
    assert repr(trainer) == "Trainer(pdg, 0 of 2 epochs)"
    best = trainer.run()
    assert repr(trainer) == f"Trainer(pdg, 2 of 2 epochs, best: {best})"
    assert str(best).startswith(f"epoch {best.number + 1}, objective 0.")


def test_the_repr_of_a_federated_history():
    made = history({"ideal": 0.125, "max": 0.25}, {"max": (9.0, 1.0)})
    lines = repr(made).splitlines()
    assert lines[0].startswith("digits, 2 runs of 3 rounds")
    assert lines[2].split()[:2] == ["ideal", "0.1250"]
    assert lines[3].split()[-2:] == ["9.00", "1.00"]
    assert "<td>0.1250</td>" in made._repr_html_()
