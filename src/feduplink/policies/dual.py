"""Policies that maximise the Lagrangian of a problem at fixed multipliers, and ``dual``.

Multipliers are cached in the user's cache directory, or in ``FEDUPLINK_CACHE`` if set; an empty
value disables the cache. The file name contains a checksum of all inputs: the problem, the
channels, the network's weights and the format number.
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
    """Abstract base class of policies that maximise the Lagrangian for each channel.

    Args:
        scenario: the cell and its radio.
        point: multipliers and thresholds of the problem.
        problem: optimisation problem; None uses the problem of the scenario. A policy for another
            problem cannot be saved.

    Raises:
        InputError: if ``point`` does not fit the problem.
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
        """Prices of the Lagrangian for channels (N, L, L), on their device and for L workers."""
        workers = csi.shape[-1]
        problem, point = self.problem, self.point
        if workers != self.scenario.workers:
            problem, point = _for_workers(problem, workers), point.for_workers(workers)
        multipliers = point.multipliers.to(csi.device)
        return replace(point, multipliers=multipliers).prices(problem, self.scenario)

    def tensors(self) -> dict[str, Tensor]:
        """Multipliers and thresholds."""
        if self._given is not None:
            raise InputError(
                f"policy: this {self.name} was made for a given problem and cannot be saved; "
                "accepted: policies for the problem of their scenario."
            )
        return self.point.tensors()

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """Restore a policy from its multipliers and thresholds."""
        return cls(scenario, DualPoint.from_tensors(tensors))


def _for_workers(problem: Problem, workers: int) -> Problem:
    """The problem for another number of workers, with the mean limit for each of them."""
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
#: Format number of cached multipliers, to be increased when a code change alters the multipliers.
_FORMAT = 1
_SHIPPED = "multipliers.safetensors"


def shipped_point(policy: str, scenario: Scenario) -> DualPoint | None:
    """Multipliers of a policy for a shipped scenario.

    The multipliers for the default scenario are stored in the policy's file instead.

    Args:
        policy: name of the policy.
        scenario: the cell and its radio.

    Returns:
        The multipliers; None if the scenario is not one of the shipped scenarios.
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
    """Read multipliers from the cache, or compute and cache them.

    Multipliers for a given ``problem`` or for user-defined measures are not cached, because the
    checksum does not cover their code.

    Args:
        policy: name of the policy.
        scenario: the cell and its radio.
        inputs: tensors that the multipliers depend on, by name.
        settings: other values that the multipliers depend on, JSON-compatible.
        find: computes the multipliers of a problem.
        problem: optimisation problem; None uses the problem of the scenario.

    Returns:
        Multipliers and thresholds.
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
    with contextlib.suppress(InputError, KeyError):  # missing or damaged file: compute
        return DualPoint.from_tensors(read_tensors(file, _KIND).tensors)
    point = find(solved)
    with contextlib.suppress(OSError):  # read-only cache: skip
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
    """Read a tensor file of this package.

    Args:
        name: file name in the directory of the policies.
        kind: kind of file.
    """
    return read_tensors(Path(__file__).with_name(name), kind)


#: Number of channels maximised at once, to bound memory.
_BATCH_SIZE = 4096
#: Number of training channels of the multipliers.
LEARNING_CHANNELS = 20_000
#: Default margin of the thresholds, in standard errors of the constraint's mean.
MARGIN = 2.0
#: Number of training channels for the initial multipliers.
_INITIAL_CHANNELS = 1000


class DualPolicy(LagrangianPolicy):
    """Near-optimal policy that maximises the Lagrangian by search, channel by channel.

    With optimal multipliers, maximisers of the Lagrangian solve the constrained problem. There is
    one multiplier per worker and constraint, so the number of workers is fixed.

    Args:
        scenario: the cell and its radio.
        point: multipliers and thresholds.
        problem: optimisation problem; None uses the problem of the scenario.

    >>> from feduplink.channels import draw_csi
    >>> scenario = Scenario(workers=2)
    >>> csi = draw_csi(scenario, 20, torch.Generator().manual_seed(0))
    >>> policy = DualPolicy.learned(scenario, csi)
    >>> policy.allocate(csi).shape
    torch.Size([20, 2])
    """

    name = "dual"
    summary = "solves every channel at multipliers learned beforehand"
    colour, marker = "#008E5C", "X"

    @classmethod
    def make(cls, scenario: Scenario, context: TuningContext) -> DualPolicy:
        """Find the multipliers on recorded training channels, or on 20,000 drawn channels."""
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
        """Find the multipliers on training channels.

        The dual is first solved on at most 1,000 channels. The resulting powers give the standard
        error of each constraint over all channels. The multipliers are then refined on all
        channels for thresholds raised by ``margin`` standard errors, so that the constraints also
        hold on other channels.

        Args:
            scenario: the cell and its radio.
            csi: training channels H in units of 1/W, (N, L, L).
            problem: optimisation problem; None uses the problem of the scenario.
            margin: margin of the thresholds, in standard errors.

        Returns:
            The policy at these multipliers.
        """

        def find(problem: Problem) -> DualPoint:
            return _learned(scenario, csi, problem, margin)

        point = kept_point(cls.name, scenario, {"csi": csi}, {"margin": margin}, find, problem)
        return cls(scenario, point, problem)

    @property
    def fixed_workers(self) -> int | None:
        """Number of workers of the scenario."""
        return self.scenario.workers

    def powers(self, csi: Tensor) -> Tensor:
        """Maximisers of the Lagrangian, (N, L, L) to (N, L), W."""
        prices = self.prices(csi)
        parts = [
            maximise(
                ChannelBatch.from_scenario(self.scenario, csi[start : start + _BATCH_SIZE]), prices
            )
            for start in range(0, len(csi), _BATCH_SIZE)
        ]
        return torch.cat(parts).to(csi.dtype)


@track("tuning of dual")
def _learned(scenario: Scenario, csi: Tensor, problem: Problem, margin: float) -> DualPoint:
    near = solve_dual(scenario, csi[:_INITIAL_CHANNELS], problem=problem).multipliers
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
