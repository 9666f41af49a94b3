"""``dual``: maximise the Lagrangian channel by channel, at learned multipliers."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.channels import draw_training_csi
from feduplink.lagrangian import ChannelBatch, DualPoint, MultiStart, maximise
from feduplink.optimum import refined, solve_dual, thresholds_with_margin
from feduplink.policies.deployment import Deployment
from feduplink.policies.known_points import kept_point
from feduplink.policies.lagrangian_policy import LagrangianPolicy
from feduplink.problem import Problem
from feduplink.progress import track
from feduplink.scenario import Scenario

#: Channels maximised at once; more would only need more memory.
_CHUNK = 4096
#: Channels that the multipliers are learned on, and by how many standard errors of a constraint's
#: mean over them the policy aims above the thresholds.
LEARNING_CHANNELS = 20_000
MARGIN = 2.0
#: The first of these channels, to get near.
_FEW_CHANNELS = 1000


class DualPolicy(LagrangianPolicy):
    """The near-optimal policy: at the optimal multipliers its powers solve the whole problem.

    One multiplier for each worker and constraint, so it takes the workers it was learned for.
    """

    name = "dual"
    summary = "solves every channel at multipliers learned beforehand"
    is_tuned = True
    colour, marker = "#009E73", "X"

    @classmethod
    def for_deployment(cls, deployment: Deployment) -> DualPolicy:
        """Learned on recorded channels, or on as many as it needs drawn from the scenario."""
        csi = deployment.training
        if not deployment.recorded:
            csi = draw_training_csi(deployment.scenario, LEARNING_CHANNELS, seed=deployment.seed)
        return cls.learned(deployment.scenario, csi, deployment.problem)

    @classmethod
    def learned(
        cls,
        scenario: Scenario,
        csi: Tensor,
        problem: Problem | None = None,
        *,
        margin: float = MARGIN,
    ) -> DualPolicy:
        """With multipliers from training channels, (N, L, L).

        A solution on a part of the channels tells the standard errors with which all of them
        estimate the constraints. From there the multipliers are refined on all channels, for
        thresholds raised by ``margin`` of these, so that the constraints also hold on channels
        the policy has not seen.
        """
        if problem is not None:
            return cls(scenario, _learned(scenario, csi, problem, margin), problem)

        def find() -> DualPoint:
            return _learned(scenario, csi, Problem.from_scenario(scenario), margin)

        return cls(scenario, kept_point(cls.name, scenario, {"csi": csi}, {"margin": margin}, find))

    @property
    def fixed_workers(self) -> int | None:
        """The workers the multipliers belong to."""
        return self.scenario.workers

    def powers(self, csi: Tensor) -> Tensor:
        """Maximisers of the Lagrangian, (N, L, L) to (N, L), W."""
        prices = self.prices(csi)
        parts = [
            maximise(ChannelBatch.from_scenario(self.scenario, csi[start : start + _CHUNK]), prices)
            for start in range(0, len(csi), _CHUNK)
        ]
        return torch.cat(parts).to(csi.dtype)


@track("tuning of dual")
def _learned(scenario: Scenario, csi: Tensor, problem: Problem, margin: float) -> DualPoint:
    near = solve_dual(scenario, csi[:_FEW_CHANNELS], problem).multipliers
    point = DualPoint(near, problem.thresholds)
    if not problem.constrained:
        return point
    prices = point.prices(problem, scenario)
    maximiser = MultiStart(ChannelBatch.from_scenario(scenario, csi), prices)
    aim = thresholds_with_margin(problem, scenario, csi, maximiser.best(prices), margin)
    multipliers = refined(problem.with_thresholds(aim), scenario, csi, near, maximiser)
    return DualPoint(multipliers, aim)
