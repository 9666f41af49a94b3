"""Multipliers at which a network's own powers meet the constraints, none with more than it needs.

A network that stands in for the maximiser of the Lagrangian is not quite the maximiser, so that the
minimum of the dual function misses the constraints by a few per cent. What is wanted is a root: a
surplus of nothing where a multiplier is paid, none missed elsewhere. Anderson's method finds it,
from steps that are as long as each constraint's own response to its multiplier asks for, and from
the response to all of them together, which is another one: who pays more leaves others more.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.observing import track_each
from feduplink.policies.dual_descent import Maximise, ScaledMultipliers
from feduplink.problem import Problem
from feduplink.scenario import Scenario

#: Channels on which the responses are measured, and the change of a multiplier for that: this
#: share of it, and at least so much of what a worker contributes to the objective.
_FEW_CHANNELS = 512
_SHARE, _LEAST = 0.1, 0.02
#: Steps are this part of what would be right if every constraint minded its own multiplier only;
#: a response is taken as at least this, and a multiplier changes by no more than that at once.
_CAUTION = 0.7
_LEAST_RESPONSE = 0.3
_LONGEST = 0.3
#: Steps that Anderson's method remembers, and how much it distrusts them.
_MEMORY = 5
_DISTRUST = 0.02
#: Added to squares that may all be 0.
_TINY = 1e-16
#: A constraint that is missed by less than this share of its threshold is met.
_MET = 2e-3


@dataclass(frozen=True)
class Responses:
    """How surpluses answer to multipliers, (K, L) each.

    Attributes:
        own: derivative of every surplus in its own multiplier; where none is paid, the mean of
            those that are.
        raised: by how much all multipliers were raised together.
        together: what that changed of every surplus.
    """

    own: Tensor
    raised: Tensor
    together: Tensor


class Balance:
    """The search on one set of channels, (N, L, L), for the thresholds of a problem."""

    def __init__(
        self,
        problem: Problem,
        scenario: Scenario,
        csi: Tensor,
        maximise: Maximise,
        scaled: ScaledMultipliers,
    ) -> None:
        self.problem, self.scenario = problem, scenario
        self.batch = ChannelBatch.from_scenario(scenario, csi)
        self._maximise = maximise
        self._scaled = scaled

    def surplus(self, x: Tensor, channels: int) -> Tensor:
        """Of every constraint while the worker is on the air, relative, on the first channels."""
        rows = torch.arange(min(channels, len(self.batch.direct)))
        multipliers = self._scaled.multipliers(x)
        power = self._maximise(rows, Prices.from_problem(self.problem, self.scenario, multipliers))
        sinr = self.batch.take(rows).sinr(power)
        return self._scaled.surplus(self.problem, sinr, power, while_on_air=True)

    def responses(self, x: Tensor) -> Responses:
        """Measured at ``x``, on a few channels."""
        base = self.surplus(x, _FEW_CHANNELS)
        paid = (x > 0) | (base < 0)
        raised = torch.where(paid, (_SHARE * x).clamp_min(_LEAST), 0.0)
        own = torch.full_like(x, torch.nan)
        for k, i in paid.nonzero().tolist():
            moved = x.clone()
            moved[k, i] += raised[k, i]
            own[k, i] = (self.surplus(moved, _FEW_CHANNELS)[k, i] - base[k, i]) / raised[k, i]
        own = torch.where(paid, own, own.nanmean()).nan_to_num(nan=1.0)
        together = self.surplus(x + raised, _FEW_CHANNELS) - base
        return Responses(own, raised, torch.where(paid, together, 0.0))

    def balanced(self, x: Tensor, responses: Responses, channels: int, evaluations: int) -> Tensor:
        """Near ``x``, by so many evaluations; the best of what they show.

        The last ones only raise the multipliers of constraints that are still missed.
        """
        gain = _CAUTION / responses.own.clamp_min(_LEAST_RESPONSE)
        points = [x - responses.raised]
        steps: list[Tensor] = []
        best: tuple[float, Tensor] | None = None
        pushes = evaluations // 3
        for number in track_each("balance", range(evaluations), "evaluations"):
            surplus = self.surplus(x, channels)
            # A surplus is no fault where nothing is paid for it.
            fault = torch.where((x > 0) | (surplus < 0), surplus, 0.0)
            missed = (-surplus - _MET).clamp_min(0.0).amax()
            rank = float(10 * missed + (x * surplus).clamp_min(0.0).sum() / x.shape[-1])
            if best is None or rank < best[0]:
                best = (rank, x)
            if number >= evaluations - pushes:
                x = x + (gain * (-surplus).clamp_min(0.0)).clamp_max(_LONGEST)
                continue
            points.append(x)
            if not steps:
                steps.append(-gain * (fault - responses.together))
            steps.append(-gain * fault)
            change = _anderson(points, steps).clamp(-_LONGEST, _LONGEST)
            x = (x + change).clamp_min(0.0)
        assert best is not None
        return best[1]


def _anderson(points: list[Tensor], steps: list[Tensor]) -> Tensor:
    """The next change, from all points so far and the simple steps there."""
    memory = min(len(points) - 1, _MEMORY)
    recent = range(-memory, 0)
    moved = torch.stack([(points[j] - points[j - 1]).flatten() for j in recent], dim=1)
    turned = torch.stack([(steps[j] - steps[j - 1]).flatten() for j in recent], dim=1)
    # Least squares by normal equations: LAPACK's own solver differs in the last bit from call to
    # call, and a scenario has one pdx.
    distrust = ((_DISTRUST * turned.norm()) ** 2 + _TINY) * torch.eye(memory, dtype=turned.dtype)
    squares = (turned[:, :, None] * turned[:, None, :]).sum(0) + distrust
    mixed = torch.linalg.solve(squares, (turned * steps[-1].reshape(-1, 1)).sum(0))
    change: Tensor = steps[-1] - ((moved + turned) @ mixed).reshape(steps[-1].shape)
    return change
