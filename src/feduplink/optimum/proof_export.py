"""Export of an optimum as a proof that can be checked independently (:mod:`feduplink.proofs`)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.lagrangian.prices import price_of
from feduplink.link import AnyMeasure
from feduplink.optimum.branch_and_bound import BranchingTree
from feduplink.optimum.concave_relaxation import Relaxation
from feduplink.optimum.solution import Optimum
from feduplink.problem import Problem, ProportionalFairness
from feduplink.proofs.format import (
    Floats,
    Node,
    Proof,
    ProofTree,
    ProvedMeasure,
    ProvedProblem,
    ProvedUtility,
    Statement,
)
from feduplink.scenario import Scenario

#: Relaxation of the stated bounds and values, relative to the sum of weights and prices, so that
#: rounding errors of the search do not invalidate a proof.
SLACK = 1e-9
#: Relaxation of the stated violation of constraints, relative to their limits.
_ROUNDING = 1e-12


def check_stateable(problem: Problem, scenario: Scenario) -> None:
    """Check that a proof file can state a problem.

    Raises:
        InputError: for upper limits, and measures outside packet success, rate and energy
            efficiency.
    """
    _proved_measure(problem.objective, scenario)
    for constraint in problem.constraints:
        _proved_measure(constraint.measure, scenario)
        if constraint.at_most:
            raise InputError(
                f"certificate: an upper limit on {constraint.name} was given; accepted in a proof: "
                "lower limits."
            )


def export_proof(optimum: Optimum, *, rows: Tensor | None = None) -> Proof:
    """Return the proof of an optimum that was found with ``record=True``.

    Args:
        optimum: the optimum with its recorded tree.
        rows: rows of its channels in the file from which they were read, (N,); None for drawn ones.

    Returns:
        The proof, in NumPy arrays.

    Raises:
        InputError: if the search was not recorded, or a proof file cannot state the problem.
    """
    scenario, problem, solution = optimum.scenario, optimum.problem, optimum.solution
    check_stateable(problem, scenario)
    tree = optimum.certificate.tree
    if tree is None:
        raise InputError(
            "certificate: the search was not recorded; accepted: an optimum that was found with "
            "record=True."
        )
    batch = ChannelBatch.from_scenario(scenario, optimum.csi)
    prices = Prices.from_problem(problem, scenario, solution.multipliers)
    price_sum = prices.success + prices.rate + prices.efficiency / batch.static_power_w
    slack = SLACK * float(price_sum.sum() + 1)
    count = len(optimum.csi)
    upper = tree.channel_bounds(count) + slack
    return Proof(
        statement=Statement(
            objective=optimum.objective - slack,
            # Rounded up; 0 if the slack exceeds the violation.
            violation=max(0.0, solution.judgement.shortfall + _ROUNDING)
            if problem.constrained
            else 0.0,
            upper_bound=slack
            + min(float(upper.mean()) + solution.constant, optimum.interference_free_bound),
        ),
        problem=ProvedProblem(
            objective=_proved_measure(problem.objective, scenario),
            utility=(
                ProvedUtility.FAIRNESS
                if isinstance(problem.utility, ProportionalFairness)
                else ProvedUtility.SUM
            ),
            weights=_array(problem.utility.weights),
            constraints=tuple(_proved_measure(c.measure, scenario) for c in problem.constraints),
            limits=_array(problem.thresholds),
            active=problem.active.cpu().numpy(),
            pmax_w=_array(batch.pmax_w),
            static_power_w=_array(batch.static_power_w),
            waterfall=scenario.waterfall,
            amplifier_inefficiency=scenario.amplifier_inefficiency,
        ),
        csi=optimum.csi.cpu().numpy(),
        rows=None if rows is None else rows.cpu().numpy(),
        multipliers=_array(solution.multipliers.constraints),
        objective_weight=_array(solution.multipliers.objective_weight),
        power=_array(optimum.power),
        upper=upper.numpy(),
        floor=_array(Relaxation(batch, prices).floor.exp()),
        tree=_breadth_first(tree, count),
        scenario=scenario.to_yaml(),
    )


def _proved_measure(measure: AnyMeasure, scenario: Scenario) -> ProvedMeasure:
    """The proof's name of a measure with the constants of the scenario."""
    price = price_of(measure, scenario)
    if price is None:
        raise InputError(
            f"certificate: the measure {measure.name} was given; accepted in a proof: packet "
            "success, rate and energy efficiency with the constants of the scenario."
        )
    return ProvedMeasure[price.upper()]


def _array(values: Tensor) -> Floats:
    """A tensor as a NumPy array in float64."""
    return values.detach().to("cpu", torch.float64).numpy()


def _breadth_first(tree: BranchingTree, channels: int) -> ProofTree:
    """Order the recorded nodes breadth first, and convert logarithms to SINRs and powers."""
    halves = np.full((len(tree.parent), 2), -1)
    parent, upper_half = tree.parent.numpy(), tree.upper_half.numpy()
    nodes = np.flatnonzero(parent >= 0)
    halves[parent[nodes], upper_half[nodes].astype(int)] = nodes
    leaf = tree.leaf.numpy()
    level = np.flatnonzero(parent < 0)
    level = level[np.argsort(tree.channel.numpy()[level])]
    levels = []
    while len(level):
        levels.append(level)
        level = halves[level[~leaf[level]]].ravel()
    order = np.concatenate(levels)
    is_leaf = leaf[order]
    lower = halves[order, 0]
    node = np.where(is_leaf, tree.proof.numpy()[order], tree.split_by.numpy()[lower])
    by_value = np.isin(node, (Node.BY_SINR, Node.BY_POWER))
    tangents = tree.tangents.take(tree.tangent_row[torch.from_numpy(order[node == Node.TANGENT])])
    return ProofTree(
        roots=channels,
        node=node,
        worker=np.where(is_leaf, 0, tree.worker.numpy()[lower]),
        split_at=np.where(by_value, np.exp(tree.split_at.numpy()[lower]), 0.0),
        at_power=tangents.at_log_power.exp().numpy(),
        sinr_slope=tangents.sinr_slope.numpy(),
        upper_ends=tangents.rate_end.numpy(),
    )
