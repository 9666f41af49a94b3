"""A branch and bound of a few lines that makes proofs, apart from the search that ships.

Every box is bounded by each worker's best ends; whose quantity splits it, and where, is chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from feduplink.proofs import Proof, ProofTree, ProvedProblem, Statement
from feduplink.proofs.format import Floats, Node, ProvedMeasure, ProvedUtility

from .reference import channel_bounds, lagrangian, measure_means, prices, worth

_SLACK = 1e-9
#: By how much, relative to all that a proof is about, maxima over grids may be too small.
_GRID_ERROR = 1e-4
_FLOOR = 1e-13


@dataclass(frozen=True)
class _Box:
    power_low: Floats
    power_high: Floats
    sinr_high: Floats
    may_be_silent: Floats
    silent: Floats
    depth: int = 0

    def with_worker(self, worker: int, **changed: float | bool) -> _Box:
        arrays = {}
        for name, value in changed.items():
            arrays[name] = getattr(self, name).copy()
            arrays[name][worker] = value
        return replace(self, **arrays, depth=self.depth + 1)


def random_problem(rng: np.random.Generator, workers: int) -> ProvedProblem:
    """Any objective and utility, any of the constraints, constants per worker."""
    measures = list(ProvedMeasure)
    constraints = tuple(measure for measure in measures if rng.random() < 0.6)
    shape = len(constraints), workers
    return ProvedProblem(
        objective=measures[rng.integers(3)],
        utility=list(ProvedUtility)[rng.integers(2)],
        weights=rng.uniform(0.2, 1, workers),
        constraints=constraints,
        limits=np.zeros(shape),
        active=rng.random(shape) < 0.7,
        pmax_w=0.01 * rng.uniform(0.5, 2, workers),
        static_power_w=0.01 * rng.uniform(0.5, 2, workers),
        waterfall=float(rng.choice([0.023, 0.3, 1.7])),
        amplifier_inefficiency=float(rng.uniform(1, 2)),
    )


def plain_proof(seed: int, *, workers: int = 3, channels: int = 4, depth: int = 5) -> Proof:
    """A true proof of a random problem at random multipliers, with boxes bounded by their ends."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, workers)
    csi = 10 ** rng.uniform(1, 3, (channels, workers, workers))
    csi[:, range(workers), range(workers)] *= 10
    csi = csi.astype(np.float32)
    power = problem.pmax_w * rng.uniform(0.01, 1, (channels, workers))
    power[rng.random(power.shape) < 0.2] = 0.0
    power[0] = problem.pmax_w
    limits = 0.9 * measure_means(problem, problem.constraints, csi, power, on_air=True)
    problem = replace(problem, limits=np.where(problem.active, limits, 0.0))
    units = np.where(limits > 0, limits, 1.0)
    multipliers = np.where(problem.active, rng.uniform(0, 0.3, limits.shape) / units, 0.0)
    fair = problem.utility is ProvedUtility.FAIRNESS
    [reached] = measure_means(problem, (problem.objective,), csi, power, on_air=False)
    weight = problem.weights / reached if fair else problem.weights
    objective = float((problem.weights * (np.log(reached) if fair else reached)).sum())
    constant = float((problem.weights * (np.log(reached) - 1)).sum()) if fair else 0.0
    proof = Proof(
        statement=Statement(0.0, 0.0, 0.0),
        problem=problem,
        csi=csi,
        rows=None,
        multipliers=multipliers,
        objective_weight=weight,
        power=power,
        upper=np.zeros(channels),
        floor=np.full(workers, _FLOOR),
        tree=ProofTree(
            0, *np.zeros((2, 0), int), np.zeros(0), *np.zeros((2, 0, workers)), np.zeros(0, bool)
        ),
    )
    tree, upper = _branched(proof, rng, depth)
    # Limits that follow from each other make the boxes' bounds better than the search knows.
    better = channel_bounds(replace(proof, tree=tree)) + _GRID_ERROR * worth(proof)
    slack = _SLACK * worth(proof)
    upper = np.minimum(upper, better) + slack
    statement = Statement(objective - slack, 0.0, float(upper.mean()) + constant + slack)
    return replace(proof, tree=tree, upper=upper, statement=statement)


def _branched(proof: Proof, rng: np.random.Generator, depth: int) -> tuple[ProofTree, Floats]:
    problem = proof.problem
    channels, workers = proof.power.shape
    direct = np.diagonal(proof.csi, axis1=1, axis2=2).astype(float)
    on, off = np.ones(workers, bool), np.zeros(workers, bool)
    queue = [
        (channel, _Box(np.zeros(workers), problem.pmax_w, gain * problem.pmax_w, on, off))
        for channel, gain in enumerate(direct)
    ]
    pairs = zip(proof.csi, proof.power, strict=True)
    upper = np.array([lagrangian(proof, csi, power) for csi, power in pairs])
    nodes: list[tuple[Node, int, float]] = []
    for channel, box in queue:
        bound = _bound(proof, channel, box)
        heard = np.flatnonzero(~box.silent)
        if box.depth == depth or not len(heard) or rng.random() < 0.05:
            nodes.append((Node.MONOTONE, 0, 0.0))
            upper[channel] = max(upper[channel], bound)
            continue
        worker = int(rng.choice(heard))
        node = Node(rng.integers(3))
        if node is Node.BY_SILENCE and not box.may_be_silent[worker]:
            node = Node.BY_POWER
        share = rng.uniform(0.1, 0.9)
        if node is Node.BY_SILENCE:
            at = 0.0
            halves = [box.with_worker(worker, silent=True), box]
        elif node is Node.BY_POWER:
            at = float((1 - share) * box.power_low[worker] + share * box.power_high[worker])
            halves = [
                box.with_worker(worker, power_high=at),
                box.with_worker(worker, power_low=at),
            ]
        else:
            at = float(share * box.sinr_high[worker])
            halves = [box.with_worker(worker, sinr_high=at), box]
        halves[1] = halves[1].with_worker(worker, may_be_silent=False)
        nodes.append((node, worker, at))
        queue.extend((channel, replace(half, depth=box.depth + 1)) for half in halves)
    node, worker, split_at = (np.array(values) for values in zip(*nodes, strict=True))
    nothing = np.zeros((0, workers))
    tree = ProofTree(
        channels, node.astype(np.int8), worker, split_at, nothing, nothing, nothing.astype(bool)
    )
    return tree, upper


def _bound(proof: Proof, channel: int, box: _Box) -> float:
    """Each worker at the largest SINR and its lowest power."""
    gains = proof.csi[channel].astype(float)
    direct = np.diag(gains)
    sure = np.where(box.may_be_silent | box.silent, 0.0, box.power_low)
    least = 1 + (gains - np.diag(direct)) @ sure
    sinr = np.minimum(box.sinr_high, direct * box.power_high / least)
    success, rate, efficiency, cost = prices(proof)
    problem = proof.problem
    per_watt = 1 / (problem.amplifier_inefficiency * box.power_low + problem.static_power_w)
    value = success * np.exp(-problem.waterfall / np.maximum(sinr, 1e-300))
    value += (rate + efficiency * per_watt) * np.log1p(sinr) - cost
    value = np.where(box.may_be_silent, np.maximum(value, 0), value)
    return math.fsum(value[~box.silent])
