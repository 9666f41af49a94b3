"""Policies that maximise a Lagrangian at learned multipliers, and ``dual``, which searches channel
by channel.

What was found is kept in the user's cache directory (``FEDUPLINK_CACHE``, if set; empty keeps
nothing), under a checksum of everything it depends on: the problem, the channels, the network's
weights, and the number of the format.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import platformdirs
import torch
from torch import Tensor

from feduplink.channels import draw_training_csi
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch, DualPoint, MultiStart, Prices, maximise
from feduplink.optimum import refine_multipliers, solve_dual, thresholds_with_margin
from feduplink.policies.base import PowerPolicy, TuningContext
from feduplink.problem import Problem, WeightedSum
from feduplink.progress import track
from feduplink.registry import MEASURES
from feduplink.scenario import Scenario, shipped_scenarios
from feduplink.storage.tensorfile import TensorFile, checksum, read_tensors, write_tensors


class LagrangianPolicy(PowerPolicy):
    """A policy that maximises the Lagrangian of its problem, channel by channel.

    The problem is that of the scenario unless another one is given; a policy for such a problem
    cannot be saved.
    """

    def __init__(
        self, scenario: Scenario, point: DualPoint, problem: Problem | None = None
    ) -> None:
        super().__init__(scenario)
        self.point = point
        self._given = problem
        self.problem = problem or Problem.from_scenario(scenario)
        point.check(len(self.problem.constraints), scenario.workers)

    def prices(self, csi: Tensor) -> Prices:
        """On the device of the channels (N, L, L), for as many workers as they have."""
        workers = csi.shape[-1]
        problem, point = self.problem, self.point
        if workers != self.scenario.workers:
            problem, point = _for_workers(problem, workers), point.for_workers(workers)
        multipliers = point.multipliers.to(csi.device)
        return replace(point, multipliers=multipliers).prices(problem, self.scenario)

    def tensors(self) -> dict[str, Tensor]:
        """The multipliers and the thresholds."""
        if self._given is not None:
            raise InputError(
                f"policy: this {self.name} is for a problem that its scenario does not describe, "
                "and cannot be saved; accepted: a scenario that names its measures."
            )
        return self.point.tensors()

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """A policy with these multipliers and thresholds."""
        return cls(scenario, DualPoint.from_tensors(tensors))


def _for_workers(problem: Problem, workers: int) -> Problem:
    """The problem for so many workers, each with the mean limit."""
    return Problem(
        problem.objective,
        WeightedSum(torch.ones(workers, dtype=torch.float64)),
        tuple(
            replace(
                constraint,
                limit=constraint.limit.mean(-1, keepdim=True).expand(workers),
                active=constraint.active.any(-1, keepdim=True).expand(workers),
            )
            for constraint in problem.constraints
        ),
    )


_KIND = "multipliers"
#: To be increased when code changes which multipliers are found, so that kept ones are not used.
_FORMAT = 1
_SHIPPED = "multipliers.safetensors"


def shipped_point(policy: str, scenario: Scenario) -> DualPoint | None:
    """The multipliers of ``policy`` for a shipped scenario; None if it is another one.

    Those of the default scenario are in the policy's own file.
    """
    name = next((name for name in shipped_scenarios() if _shipped_scenario(name) == scenario), None)
    tensors = shipped_tensors(_SHIPPED, _KIND).under(f"{policy}.{name}.")
    return DualPoint.from_tensors(tensors) if tensors else None


def kept_point(
    policy: str,
    scenario: Scenario,
    inputs: dict[str, Tensor],
    settings: dict[str, Any],
    find: Callable[[Problem], DualPoint],
    problem: Problem | None = None,
) -> DualPoint:
    """What ``find`` finds, or found in an earlier run of the same ``inputs`` and ``settings``.

    Nothing is kept for a ``problem`` that the scenario does not describe, or for a scenario with
    measures of the user's own: a change of their code would go unnoticed.

    Args:
        policy: name of the policy.
        scenario: the cell and its radio.
        inputs: the tensors that the point depends on.
        settings: the other values that it depends on, for JSON.
        find: searches for the point of a problem.
        problem: to be solved; None is the problem that the scenario describes.
    """
    solved = problem or Problem.from_scenario(scenario)
    directory = _cache_directory()
    own = problem is not None or not all(_ships(measure) for measure in scenario.measures)
    if own or directory is None:
        return find(solved)
    identity = {
        "policy": policy,
        "scenario": scenario.model_dump(mode="json"),
        "format": _FORMAT,
        **settings,
    }
    file = directory / _KIND / f"{policy}-{checksum(inputs, identity)[:32]}.safetensors"
    with contextlib.suppress(InputError, KeyError):  # absent or damaged: found anew
        return DualPoint.from_tensors(read_tensors(file, _KIND).tensors)
    point = find(solved)
    with contextlib.suppress(OSError):  # a cache that cannot be written to is none
        write_tensors(file, _KIND, TensorFile(point.tensors(), identity))
    return point


def _cache_directory() -> Path | None:
    given = os.environ.get("FEDUPLINK_CACHE")
    if given is None:
        return Path(platformdirs.user_cache_dir("feduplink"))
    return Path(given) if given else None


def _ships(measure: str) -> bool:
    found = MEASURES.find(measure)
    return getattr(found, "__module__", "").startswith("feduplink.")


@cache
def _shipped_scenario(name: str) -> Scenario:
    return Scenario.load(name)


@cache
def shipped_tensors(name: str, kind: str) -> TensorFile:
    """Read a file that comes with this package."""
    return read_tensors(Path(__file__).with_name(name), kind)


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
    colour, marker = "#008E5C", "X"

    @classmethod
    def make(cls, scenario: Scenario, context: TuningContext) -> DualPolicy:
        """Learn the multipliers on recorded channels, or else on 20,000 drawn ones."""
        channels = context.channels
        if channels is not None and channels.recorded:
            csi = channels.training
        else:
            csi = draw_training_csi(scenario, LEARNING_CHANNELS, seed=context.seed)
        return cls.learned(scenario, csi, context.problem)

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

        def find(problem: Problem) -> DualPoint:
            return _learned(scenario, csi, problem, margin)

        point = kept_point(cls.name, scenario, {"csi": csi}, {"margin": margin}, find, problem)
        return cls(scenario, point, problem)

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
    near = solve_dual(scenario, csi[:_FEW_CHANNELS], problem=problem).multipliers
    point = DualPoint(near, problem.thresholds)
    if not problem.constrained:
        return point
    prices = point.prices(problem, scenario)
    maximiser = MultiStart(ChannelBatch.from_scenario(scenario, csi), prices)
    aim = thresholds_with_margin(
        scenario, csi, maximiser.best(prices), problem=problem, margin=margin
    )
    multipliers = refine_multipliers(
        scenario, csi, maximiser, problem=problem.with_thresholds(aim), near=near
    )
    return DualPoint(multipliers, aim)
