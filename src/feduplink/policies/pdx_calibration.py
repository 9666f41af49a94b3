"""Multipliers for ``pdx``: those that make the constraints hold, the network in the loop."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from feduplink.channels import denoised_csi, noisy_csi
from feduplink.channels.csi import check_csi
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.observing import track
from feduplink.optimum import refined, solve_dual, thresholds_with_margin
from feduplink.policies.lagrangian_policy import DualPoint
from feduplink.policies.unrolled_network import UnrolledNetwork
from feduplink.problem import Problem
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

#: The first channels, to get near, and the evaluations that takes.
_FEW_CHANNELS = 1000
_EVALUATIONS = 40
#: Standard errors by which the policy aims above the thresholds.
MARGIN = 3.0


@dataclass(frozen=True)
class _NetworkMaximiser:
    """Stands in for the search; sees what the policy will see of the channels."""

    network: UnrolledNetwork
    seen: ChannelBatch

    def maximise(self, prices: Prices) -> Tensor:
        return self.network.powers(self.seen, prices)

    def restart(self, prices: Prices) -> None:
        """The network has no memory to refresh."""


@track("tuning of pdx")
def calibrated(
    network: UnrolledNetwork,
    problem: Problem,
    scenario: Scenario,
    csi: Tensor,
    *,
    margin: float = MARGIN,
    seed: int = 0,
) -> DualPoint:
    """Multipliers found on channels (N, L, L), and the thresholds they are for.

    Found on a part of the channels, then on all of them, there for slightly higher thresholds so
    that unseen channels meet the given ones too. With noisy CSI the network sees the noise, and
    the constraints speak of the true channels.
    """
    check_csi(csi, scenario.workers)
    noisy = noisy_csi(csi, scenario.csi_noise, torch_generator(seed, "csi-noise", index=1))
    seen = denoised_csi(noisy, scenario.csi_noise)

    few = ChannelBatch.from_scenario(scenario, seen[:_FEW_CHANNELS])
    near = solve_dual(
        scenario,
        csi[:_FEW_CHANNELS],
        problem,
        maximiser=lambda _batch, _prices: _NetworkMaximiser(network, few),
        repair=False,
        most_evaluations=_EVALUATIONS,
    ).primal_multipliers
    point = DualPoint(near, problem.thresholds)
    if not problem.constrained:
        return point
    maximiser = _NetworkMaximiser(network, ChannelBatch.from_scenario(scenario, seen))
    power = maximiser.maximise(point.prices(problem, scenario))
    aim = thresholds_with_margin(problem, scenario, csi, power, margin)
    multipliers = refined(problem.with_thresholds(aim), scenario, csi, near, maximiser)
    return DualPoint(multipliers, aim)
