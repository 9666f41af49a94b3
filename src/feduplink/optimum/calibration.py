"""``pdx`` for a scenario: multipliers that make its constraints hold, the network in the loop."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.channels import draw_csi
from feduplink.channels.csi import check_csi, denoised_csi, noisy_csi
from feduplink.lagrangian import Cell, Multipliers, Prices
from feduplink.optimum.dual import PRIMAL_TOLERANCE, solve_dual
from feduplink.optimum.solution import aimed_above
from feduplink.policies.pdx import UnrolledNetwork, UnrolledPolicy
from feduplink.policies.storage import load_policy
from feduplink.problem import Problem, judge
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

#: Channels that the multipliers are found on, first a few to get near, then all of them.
CHANNELS = 20_000
_FEW = 1000
_EVALUATIONS, _LAST_EVALUATIONS = 40, 12
#: First step of the multipliers, relative to the weights, for a relative surplus of one.
_FIRST_STEP = 0.05
#: Standard errors by which the policy aims above the thresholds.
MARGIN = 3.0


@dataclass(frozen=True)
class _NetworkMaximiser:
    """Stands in for the search for hill tops; sees what the policy will see of the channels."""

    network: UnrolledNetwork
    seen: Cell

    def follow(self, prices: Prices) -> Tensor:
        return self.network.powers(self.seen, prices)

    def restart(self, prices: Prices) -> None:
        """The network has no memory to refresh."""


def calibrated(
    network: UnrolledNetwork,
    scenario: Scenario,
    csi: Tensor,
    *,
    margin: float = MARGIN,
    seed: int = 0,
) -> UnrolledPolicy:
    """The policy with multipliers found on channels (N, L, L).

    Found on a part of the channels, then on all of them, there for slightly higher thresholds so
    that unseen channels meet the given ones too. With noisy CSI the network sees the noise, and
    the constraints speak of the true channels.
    """
    check_csi(csi, scenario.workers)
    noisy = noisy_csi(csi, scenario.csi_noise, torch_generator(seed, "csi-noise", index=1))
    seen = denoised_csi(noisy, scenario.csi_noise)

    few = Cell.of(scenario, seen[:_FEW])
    near = solve_dual(
        scenario,
        csi[:_FEW],
        maximiser=lambda _cell, _prices: _NetworkMaximiser(network, few),
        repair=False,
        most_evaluations=_EVALUATIONS,
    ).primal_multipliers
    power = network.powers(Cell.of(scenario, seen), near.prices(scenario))
    aim = aimed_above(scenario, csi, power, margin)
    return UnrolledPolicy(aim, network, _settled(network, aim, csi, seen, near))


def _settled(
    network: UnrolledNetwork, aim: Scenario, csi: Tensor, seen: Tensor, near: Multipliers
) -> Multipliers:
    """Multipliers near ``near`` at which the network's powers meet the constraints.

    The network is not quite the maximiser, so that the surplus of a constraint is not quite the
    gradient of what it reaches, and a minimum of the latter need not meet the constraints. Hence
    steps along the surplus itself, λ ← max(λ − η surplus, 0): longer after a step that brings the
    constraints nearer to being met exactly, and back and shorter after one that does not. Of all
    multipliers on the way the best are taken.
    """
    problem = Problem.of(aim)
    cell, shown = Cell.of(aim, csi), Cell.of(aim, seen)
    thresholds = torch.stack((aim.rate_thresholds, aim.ee_thresholds))
    unit = torch.where(thresholds > 0, thresholds, 1.0) / near.worth.mean()
    scaled, step = near.constraints * unit, _FIRST_STEP
    best: tuple[tuple[bool, float], Multipliers] | None = None
    base: tuple[float, Tensor, Tensor] | None = None
    for _ in range(_LAST_EVALUATIONS):
        multipliers = Multipliers(scaled / unit, near.worth)
        power = network.powers(shown, multipliers.prices(aim))
        verdict = judge(power, csi, aim, problem)
        met = verdict.violation <= PRIMAL_TOLERANCE
        rank = (met, verdict.objective if met else -verdict.violation)
        if best is None or rank > best[0]:
            best = (rank, multipliers)
        surplus = _relative_surplus(problem, cell, power)
        # A surplus is no fault where nothing is paid for it.
        fault = float(torch.where(scaled > 0, surplus, surplus.clamp_max(0.0)).norm())
        if base is None or fault < base[0]:
            base, step = (fault, scaled, surplus), 1.5 * step
        else:
            step = 0.4 * step
        scaled = (base[1] - step * base[2]).clamp_min(0.0)
    assert best is not None
    return best[1]


def _relative_surplus(problem: Problem, cell: Cell, power: Tensor) -> Tensor:
    """E[1(p > 0) (c − c0)] / c0 for every constraint and worker, 0 without threshold; (2, L)."""
    sinr = cell.sinr(power)
    rows = []
    for constraint in problem.constraints:
        threshold = constraint.threshold.to(power)
        surplus = torch.where(power > 0, constraint.measure(sinr, power) - threshold, 0.0).mean(0)
        rows.append(torch.where(threshold > 0, surplus / threshold.clamp_min(1e-12), 0.0))
    return torch.stack(rows)


def shipped_pdx(
    scenario: Scenario, csi: Tensor | None = None, *, margin: float = MARGIN, seed: int = 0
) -> UnrolledPolicy:
    """The shipped network with multipliers for ``scenario``.

    They are found on the channels ``csi`` (N, L, L), or on channels drawn for the scenario.
    """
    policy = load_policy(UnrolledPolicy.name)
    assert isinstance(policy, UnrolledPolicy)
    if csi is None:
        csi = draw_csi(scenario, CHANNELS, torch_generator(seed, "train-channels"))
    return calibrated(policy.network, scenario, csi, margin=margin, seed=seed)
