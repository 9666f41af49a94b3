"""Proofs of the search that ships, for problems of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch

from feduplink import Optimum, Problem, Scenario, draw_csi
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum import Budget, RelaxationSearch, Target, certify, export_proof, solve_dual
from feduplink.progress import track
from feduplink.proofs import Proof

_T = TypeVar("_T")
_MAX_BOXES = 50_000


def random_scenario(seed: int) -> Scenario:
    """Strong interference, so that there is something to branch over; constants per worker."""
    rng = np.random.default_rng(seed)
    workers = int(rng.integers(2, 4))

    def one_of(options: Sequence[_T]) -> _T:
        return options[rng.integers(len(options))]

    def per_worker(low: float, high: float) -> tuple[float, ...]:
        return tuple(rng.uniform(low, high, workers).tolist())

    constrained = rng.random() < 0.75
    return Scenario(
        workers=workers,
        objective=one_of(("psr", "rate", "energy_efficiency")),
        utility=one_of(("weighted-sum", "proportional-fairness")),
        weights=one_of(("data", "uniform", per_worker(0.5, 2))),
        rate_min=per_worker(0, 0.3) if constrained else 0.0,
        ee_min=per_worker(0, 25) if constrained and rng.random() < 0.5 else 0.0,
        constraints=("psr >= 0.5",) if rng.random() < 0.2 else (),
        pmax_dbw=per_worker(-25, -15),
        static_power_w=per_worker(0.005, 0.02),
        amplifier_inefficiency=one_of((1.0, 1.5)),
        waterfall=one_of((0.023, 0.2, 1.5)),
        base_stations=one_of((1, 2)),
        antennas=4,
        interference=one_of((2.0, 8.0, 30.0)),
    )


def searched_optimum(seed: int, *, gap: float = 1e-2) -> Optimum:
    """The best powers on a few channels of a random scenario, and a recorded search.

    It goes on until the ``gap``, relative to all that there is to gain, is reached. The multipliers
    are no better than a few evaluations make them: proofs hold for any. Every other search is one
    in log-powers, with tangents, also where the one in powers is usually taken.
    """
    scenario = random_scenario(seed)
    csi = draw_csi(scenario, 3, torch.Generator().manual_seed(seed))
    problem = Problem.from_scenario(scenario)
    solution = solve_dual(scenario, csi, problem=problem, max_evaluations=4)
    prices = Prices.from_problem(problem, scenario, solution.multipliers)
    worth = float((prices.success + prices.rate + prices.efficiency / scenario.static_power).sum())
    batch = ChannelBatch.from_scenario(scenario, csi)
    if seed // 2 % 2:
        with track("search") as progress:
            search = RelaxationSearch(batch, prices, Target(gap * worth), record=True)
            certificate = search.run(Budget(_MAX_BOXES), progress)
    else:
        certificate = certify(batch, prices, max_boxes=_MAX_BOXES, gap=gap * worth, record=True)
    return Optimum(scenario, problem, csi, solution, certificate, [])


def searched_proof(seed: int, *, gap: float = 1e-2) -> Proof:
    """The proof of that optimum."""
    return export_proof(searched_optimum(seed, gap=gap))
