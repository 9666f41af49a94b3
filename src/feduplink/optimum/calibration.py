"""``pdx`` for a scenario: multipliers that make its constraints hold, the network in the loop."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from feduplink.channels import draw_training_csi
from feduplink.channels.csi import check_csi, denoised_csi, noisy_csi
from feduplink.lagrangian import Cell, Prices
from feduplink.observing import track
from feduplink.optimum.dual import solve_dual
from feduplink.optimum.settling import settled
from feduplink.optimum.solution import aimed_above
from feduplink.policies.pdx import UnrolledNetwork, UnrolledPolicy
from feduplink.policies.storage import load_policy
from feduplink.problem import Problem
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

#: Channels that the multipliers are found on, first a few to get near, then all of them.
CHANNELS = 20_000
_FEW = 1000
_EVALUATIONS = 40
#: Of the channels, and of the noise on them.
_SEED = 0
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


@track("tuning of pdx")
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
    if not Problem.of(scenario).constrained:
        return UnrolledPolicy(scenario, network, near)
    power = network.powers(Cell.of(scenario, seen), near.prices(scenario))
    aim = aimed_above(scenario, csi, power, margin)
    maximiser = _NetworkMaximiser(network, Cell.of(aim, seen))
    return UnrolledPolicy(aim, network, settled(aim, csi, near, maximiser))


def shipped_pdx(
    scenario: Scenario, csi: Tensor | None = None, *, margin: float = MARGIN
) -> UnrolledPolicy:
    """The shipped network with multipliers for ``scenario``.

    They are found on channels drawn for the scenario, always the same: a scenario has one ``pdx``,
    whatever the seed of a run. That of the default scenario ships. Only who gives channels ``csi``
    (N, L, L) gets multipliers found on these.
    """
    policy = load_policy(UnrolledPolicy.name)
    assert isinstance(policy, UnrolledPolicy)
    if csi is None and margin == MARGIN and scenario == Scenario():
        return policy
    if csi is None:
        csi = draw_training_csi(scenario, CHANNELS, seed=_SEED)
    return calibrated(policy.network, scenario, csi, margin=margin, seed=_SEED)
