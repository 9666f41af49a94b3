"""Proofs of the search that ships, for problems of all kinds."""

from __future__ import annotations

import torch

from feduplink import Optimum, Scenario, draw_csi, find_optimum
from feduplink.optimum import proof_of
from feduplink.proofs import Proof

_OBJECTIVES = ("psr", "rate", "energy_efficiency")
_UTILITIES = ("weighted-sum", "proportional-fairness")


def random_scenario(seed: int) -> Scenario:
    """Strong interference, so that there is something to branch over; constants per worker."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, workers: int) -> tuple[float, ...]:
        return tuple((low + (high - low) * torch.rand(workers, generator=generator)).tolist())

    workers = 2 + seed % 3
    constrained = seed % 4 != 3
    return Scenario(
        workers=workers,
        objective=_OBJECTIVES[seed % 3],
        utility=_UTILITIES[seed // 3 % 2],
        weights=("data", "uniform", uniform(0.5, 2, workers))[seed // 6 % 3],
        rate_min=uniform(0, 0.3, workers) if constrained else 0.0,
        ee_min=uniform(0, 25, workers) if constrained and seed % 2 else 0.0,
        constraints=("psr >= 0.5",) if seed % 5 == 0 else (),
        pmax_dbw=uniform(-25, -15, workers),
        static_power_w=uniform(0.005, 0.02, workers),
        amplifier_inefficiency=1 + seed % 2 / 2,
        waterfall=(0.023, 0.2, 1.5)[seed // 2 % 3],
        base_stations=1 + seed % 2,
        antennas=4,
        interference=(2.0, 8.0, 30.0)[seed // 3 % 3],
    )


def searched_optimum(seed: int, *, channels: int = 3, budget_s: float = 0.03) -> Optimum:
    """The optimum on a few channels of a random scenario, its search recorded."""
    scenario = random_scenario(seed)
    csi = draw_csi(scenario, channels, torch.Generator().manual_seed(seed))
    return find_optimum(scenario, csi, budget_s=budget_s, target_gap=1e-4, record=True)


def searched_proof(seed: int, *, channels: int = 3, budget_s: float = 0.03) -> Proof:
    """The proof of that optimum."""
    return proof_of(searched_optimum(seed, channels=channels, budget_s=budget_s))
