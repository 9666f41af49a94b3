"""A recorded optimum as a proof; proofs are checked in ``tests/proofs``."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from feduplink import Constraint, InputError, Problem, Scenario, draw_csi
from feduplink.link import PacketSuccess, Rate
from feduplink.optimum import Optimum, export_proof, find_optimum
from feduplink.problem import WeightedSum
from feduplink.proofs.format import Node


@pytest.fixture(scope="module")
def optimum() -> Optimum:
    scenario = Scenario(workers=3, interference=8, rate_min=0.2, ee_min=10)
    csi = draw_csi(scenario, 6, torch.Generator().manual_seed(0))
    return find_optimum(scenario, csi, max_boxes=5000, gap=1e-5, record=True)


def test_the_statement_is_that_of_the_optimum(optimum: Optimum):
    proof = export_proof(optimum, rows=torch.arange(2, 18, 3))
    statement = proof.statement
    assert statement.objective == pytest.approx(optimum.objective, abs=1e-8)
    assert statement.objective < optimum.objective
    assert statement.violation == pytest.approx(optimum.solution.judgement.violation, abs=2e-12)
    assert statement.upper_bound == pytest.approx(optimum.upper_bound, abs=1e-5)
    assert statement.upper_bound > optimum.objective
    assert proof.rows is not None
    assert proof.rows.tolist() == [2, 5, 8, 11, 14, 17]
    np.testing.assert_array_equal(proof.csi, optimum.csi.numpy())


def test_the_tree_is_that_of_the_search(optimum: Optimum):
    tree, recorded = export_proof(optimum).tree, optimum.certificate.tree
    assert recorded is not None
    assert tree.is_queue()
    assert len(tree.node) == len(recorded.parent)
    counts = np.bincount(tree.node, minlength=len(Node))
    halves = np.bincount(recorded.split_by.numpy()[len(optimum.csi) :], minlength=len(Node))
    leaves = np.bincount(recorded.proof[recorded.leaf], minlength=len(Node))
    assert counts.tolist() == (halves // 2 + leaves).tolist()
    assert tree.at_power.shape == (counts[Node.TANGENT], 3)
    per_channel = np.bincount(tree.channel())
    assert per_channel.tolist() == torch.bincount(recorded.channel).tolist()


def test_a_proof_needs_a_recorded_search():
    scenario = Scenario(workers=2)
    csi = draw_csi(scenario, 3, torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match="record=True"):
        export_proof(find_optimum(scenario, csi, max_boxes=0))


def test_measures_with_other_constants_than_the_scenario_are_refused():
    scenario = Scenario(workers=2)
    limit = Constraint.at_least(PacketSuccess(0.5), torch.full((2,), 0.1, dtype=torch.float64))
    problem = Problem(Rate(), WeightedSum(scenario.worker_weights), (limit,))
    csi = draw_csi(scenario, 3, torch.Generator().manual_seed(0))
    optimum = find_optimum(scenario, csi, problem=problem, max_boxes=0, record=True)
    with pytest.raises(InputError, match="the measure psr was given; accepted in a proof"):
        export_proof(optimum)
