"""Training curricula of ``pdx``: random channels with random prices or with dual descent.

The inner problem of the dual depends on the gains relative to noise and Pmax, the power
consumption, the waterfall threshold and the prices. A curriculum draws all of them.

Near the optimal multipliers of a problem, workers are almost indifferent between transmitting and
silence, and random prices rarely lead there. A part of the batches therefore takes its multipliers
from a dual descent on the network's own powers, as :mod:`feduplink.optimum.calibration` does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import draw_csi
from feduplink.channels.recorded import recording_identity
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.optimum.calibration import AdamDirections, DescentStage
from feduplink.scenario import Scenario

_T = TypeVar("_T")

#: Ranges of multiplier × threshold over mean weight, for one scenario and for random ones. At
#: higher values, workers transmit only in their few best channels.
_SCENARIO_MULTIPLIER_RANGE = (0.003, 0.4)
_RANDOM_MULTIPLIER_RANGE = (0.02, 6.0)
#: Ranges of the ratio of a worker's multiplier to that of its channel.
_SCENARIO_SPREAD_RANGE = (0.4, 2.0)
_RANDOM_SPREAD_RANGE = (0.2, 3.0)
#: Number of channels for estimates of the interference-free mean rate and efficiency.
_SCALE_CHANNELS = 64


class Curriculum:
    """Base class of sources of training batches.

    A subclass implements :meth:`draw` and :meth:`identity`, and the other methods if its batches
    depend on earlier ones.
    """

    def draw(self, count: int, generator: torch.Generator) -> tuple[ChannelBatch, Prices]:
        """Draw a batch of channels of one cell.

        Args:
            count: number of channels N.
            generator: source of random numbers; tensors are on its device.

        Returns:
            Channels, and prices (N, L), both in float32.
        """
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """Parameters of the curriculum, JSON-compatible; compared when a run is resumed."""
        raise NotImplementedError

    def respond(self, power: Tensor) -> None:
        """Process the powers (N, L), W, of the network for the last batch."""

    def state(self) -> Any:
        """Variables that the next batches depend on, apart from the generator."""
        return None

    def restore(self, state: Any) -> None:
        """Restore the variables of :meth:`state`."""


@dataclass(frozen=True)
class OneScenario(Curriculum):
    """Channels of one scenario at random multipliers.

    Attributes:
        scenario: the cell, its radio and its problem.
        recorded: channels H in units of 1/W, (N, L, L), from which batches are sampled with
            replacement; None draws channels from the scenario.
    """

    scenario: Scenario
    recorded: Tensor | None = None

    def draw(self, count: int, generator: torch.Generator) -> tuple[ChannelBatch, Prices]:
        """Draw channels of the scenario and prices for its objective and thresholds."""
        scenario, random = self.scenario, RandomNumbers(generator)
        batch = ChannelBatch.from_scenario(scenario, self._csi(count, generator)).to(torch.float32)
        weights = scenario.worker_weights.to(batch.direct).expand(count, -1)
        rate_min = scenario.rate_thresholds.to(batch.direct).clamp_min(1e-3)
        ee_min = scenario.ee_thresholds.to(batch.direct).clamp_min(1e-1)
        zero = torch.zeros_like(weights)
        objective = Prices(weights, zero, zero, zero)
        return batch, _with_constraints(objective, weights, (rate_min, ee_min), random)

    def _csi(self, count: int, generator: torch.Generator) -> Tensor:
        if self.recorded is None:
            return draw_csi(self.scenario, count, generator)
        device = generator.device
        rows = torch.randint(len(self.recorded), (count,), generator=generator, device=device)
        return self.recorded.to(device)[rows]

    def identity(self) -> dict[str, Any]:
        """Scenario and checksum of recorded channels."""
        scenario = self.scenario.model_dump(mode="json")
        return {"scenario": scenario, "recorded": recording_identity(self.recorded)}


@dataclass(frozen=True)
class AnyScenario(Curriculum):
    """Random cells, radios, objectives, weights and thresholds at random multipliers.

    Every batch has one cell and radio. Numbers are log-uniform in their ranges, except for
    ``pmax_dbw``, which is uniform; elements of tuples are equally likely.

    Attributes:
        workers: numbers of workers L.
        channel_models: names of channel models.
        antennas: range of the number of antennas.
        cell_side_m: range of the side of the cell, m.
        pmax_dbw: range of Pmax, dBW.
        interference: range of the interference factor.
        waterfall: range of the waterfall threshold, in half of the batches; the others have the
            default radio.
        static_power_w: range of the static power in the same batches, W.
        amplifier_inefficiency: range of the amplifier inefficiency in the same batches.
        thresholds: range of the thresholds relative to the interference-free mean rate and
            efficiency; in half of the channels a uniform factor from 0.5 to 1.5 per worker applies.
    """

    workers: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8, 8, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32)
    channel_models: tuple[str, ...] = (
        "wbs",
        "wbs",
        "hata-urban",
        "hata-suburban",
        "hata-urban-shadowed",
        "hata-suburban-shadowed",
    )
    antennas: tuple[float, float] = (1.5, 80.0)
    cell_side_m: tuple[float, float] = (300.0, 3000.0)
    pmax_dbw: tuple[float, float] = (-48.0, 8.0)
    interference: tuple[float, float] = (0.4, 12.0)
    waterfall: tuple[float, float] = (0.002, 1.0)
    static_power_w: tuple[float, float] = (0.002, 0.2)
    amplifier_inefficiency: tuple[float, float] = (0.5, 5.0)
    thresholds: tuple[float, float] = (0.05, 1.5)

    def draw(self, count: int, generator: torch.Generator) -> tuple[ChannelBatch, Prices]:
        """Draw channels of a random cell, and prices for random objectives and thresholds."""
        random = RandomNumbers(generator)
        scenario = self.cell(random)
        workers = scenario.workers
        csi = draw_csi(scenario, count, generator)
        batch = ChannelBatch.from_scenario(scenario, csi).to(torch.float32)
        weights = random.weights(count, workers)
        rate, efficiency = _interference_free_scale(batch)
        rate_min, ee_min = (
            scale
            * random.log_uniform(*self.thresholds, count, 1)
            * torch.where(
                random.chance(0.5, count, 1), random.uniform(0.5, 1.5, count, workers), 1.0
            )
            for scale in (rate, efficiency)
        )
        objective = random_objectives(weights, rate, efficiency, random)
        return batch, _with_constraints(
            objective,
            weights,
            (rate_min, ee_min),
            random,
            multiplier_range=_RANDOM_MULTIPLIER_RANGE,
            spread_range=_RANDOM_SPREAD_RANGE,
        )

    def cell(self, random: RandomNumbers) -> Scenario:
        """Draw a cell with its radio."""
        # One transfer for all numbers, because every transfer from a GPU synchronises.
        at = iter(random.uniform(0, 1, 10).tolist())

        def between(low: float, high: float) -> float:
            return math.exp(math.log(low) + math.log(high / low) * next(at))

        def one_of(choices: tuple[_T, ...]) -> _T:
            return choices[int(len(choices) * next(at))]

        low, high = self.pmax_dbw
        cell: dict[str, Any] = {
            "workers": one_of(self.workers),
            "channel_model": one_of(self.channel_models),
            "antennas": round(between(*self.antennas)),
            "cell_side_m": between(*self.cell_side_m),
            "pmax_dbw": low + (high - low) * next(at),
            "interference": between(*self.interference),
        }
        radio = {
            "waterfall": between(*self.waterfall),
            "static_power_w": between(*self.static_power_w),
            "amplifier_inefficiency": between(*self.amplifier_inefficiency),
        }
        return Scenario(**cell, **(radio if next(at) < 0.5 else {}))

    def identity(self) -> dict[str, Any]:
        """All ranges and choices."""
        return {name: list(value) for name, value in vars(self).items()}


class RandomNumbers:
    """Random numbers of several distributions from one generator, on its device."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform numbers in [``low``, ``high``)."""
        unit = torch.rand(shape, generator=self._generator, device=self._generator.device)
        return low + (high - low) * unit

    def log_uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Log-uniform numbers in [``low``, ``high``)."""
        return self.uniform(math.log(low), math.log(high), *shape).exp()

    def chance(self, probability: float, *shape: int) -> Tensor:
        """Independent Booleans, true with ``probability``."""
        return self.uniform(0, 1, *shape) < probability

    def weights(self, *shape: int) -> Tensor:
        """Weights of workers, (..., L), with sum one over the last dimension."""
        weights = self.uniform(0.1, 1.0, *shape)
        return weights / weights.sum(-1, keepdim=True)


def random_objectives(
    weights: Tensor, rate: Tensor, efficiency: Tensor, random: RandomNumbers
) -> Prices:
    """Draw objectives: packet success with probability 0.9, otherwise rate or energy efficiency.

    Args:
        weights: weights of the workers, (N, L).
        rate: typical rate, broadcastable to (N, L), by which rate objectives are divided.
        efficiency: typical energy efficiency, in the same way.
        random: source of random numbers.

    Returns:
        Prices of the objectives, (N, L).
    """
    kind = random.uniform(0, 1, len(weights), 1)
    return Prices(
        torch.where(kind < 0.9, weights, 0.0),
        torch.where((kind >= 0.9) & (kind < 0.95), weights / rate, 0.0),
        torch.where(kind >= 0.95, weights / efficiency, 0.0),
        torch.zeros_like(weights),
    )


def _interference_free_scale(batch: ChannelBatch) -> tuple[Tensor, Tensor]:
    """Mean rate at Pmax and mean efficiency at the most efficient power, without interference."""
    static, inefficiency = batch.static_power_w, batch.amplifier_inefficiency
    gain = batch.direct[:_SCALE_CHANNELS]
    rate = link.rate(gain * batch.pmax_w)
    power = link.most_efficient_power(gain, static, inefficiency).to(gain)
    power = torch.minimum(power, batch.pmax_w)
    efficient_rate = link.rate(gain * power)
    efficiency = link.efficiency_of_rate(efficient_rate, power, static, inefficiency)
    return rate.mean(), efficiency.mean()


def _with_constraints(
    objective: Prices,
    weights: Tensor,
    thresholds: tuple[Tensor, Tensor],
    random: RandomNumbers,
    *,
    multiplier_range: tuple[float, float] = _SCENARIO_MULTIPLIER_RANGE,
    spread_range: tuple[float, float] = _SCENARIO_SPREAD_RANGE,
) -> Prices:
    """Add random multipliers of the rate and efficiency constraints to the prices.

    A multiplier times its threshold, over the mean weight, is the product of a number per channel
    from ``multiplier_range`` and a number per worker from ``spread_range``, or zero at random.
    """
    count, workers = weights.shape
    rate_min, ee_min = thresholds
    rate_price, ee_price = (
        random.log_uniform(*multiplier_range, count, 1)
        * random.log_uniform(*spread_range, count, workers)
        * random.chance(0.6, count, 1)
        * random.chance(0.9, count, workers)
        * weights.mean(-1, keepdim=True)
        for _ in range(2)
    )
    return Prices(
        objective.success,
        objective.rate + rate_price / rate_min,
        objective.efficiency + ee_price / ee_min,
        objective.activation_cost + rate_price + ee_price,
    )


#: Probability that a batch takes its multipliers from dual descent instead of random prices.
_DESCENT_PROBABILITY = 0.6
#: Number of cells in dual descent, and number of problems per cell.
_NUM_CELLS, _NUM_PROBLEMS = 64, 16
#: Steps of the dual descent, after which the cell is replaced.
_DESCENT = DescentStage(steps=80, channels=128, first=0.3, last=0.02, averaged=0.0)
#: Range of the thresholds relative to the interference-free means, and channels for these means.
_THRESHOLD_RANGE = (0.02, 1.05)
_THRESHOLD_CHANNELS = 256


@dataclass
class CellProblems:
    """P problems of one cell with their current multipliers.

    Attributes:
        scenario: the cell and its radio.
        weights: weights of the workers, (P, L).
        objective: prices of the objective, (P, L).
        thresholds: thresholds of rate and energy efficiency, (P, 2, L).
        scaled: multipliers times threshold over weight, (P, 2, L).
        directions: state of Adam for ``scaled``.
    """

    scenario: Scenario
    weights: Tensor
    objective: Prices
    thresholds: Tensor
    scaled: Tensor
    directions: AdamDirections

    @classmethod
    def drawn(cls, scenario: Scenario, generator: torch.Generator) -> CellProblems:
        """Draw weights, objectives and thresholds; the multipliers are zero."""
        random = RandomNumbers(generator)
        workers = scenario.workers
        weights = random.weights(_NUM_PROBLEMS, workers)
        means = _interference_free_means(scenario, random.uniform(0, 1, _NUM_PROBLEMS), generator)
        relative = torch.where(
            random.chance(0.5, _NUM_PROBLEMS, 1, 1),
            random.uniform(*_THRESHOLD_RANGE, _NUM_PROBLEMS, 2, workers),
            random.uniform(*_THRESHOLD_RANGE, _NUM_PROBLEMS, 2, 1),
        )
        objective = random_objectives(weights, means[:, :1], means[:, 1:], random)
        scaled = torch.zeros_like(relative)
        directions = AdamDirections.for_variables(scaled)
        return cls(scenario, weights, objective, relative * means[..., None], scaled, directions)

    def prices(self) -> Prices:
        """Prices of the Lagrangian at the current multipliers, (P, L)."""
        cost = self.scaled * self.weights[:, None]
        rate, efficiency = (cost / self.thresholds).unbind(1)
        objective = self.objective
        return replace(
            objective,
            rate=objective.rate + rate,
            efficiency=objective.efficiency + efficiency,
            activation_cost=cost.sum(1),
        )

    def descend(self, surplus: Tensor) -> None:
        """Take one step of the multipliers.

        Args:
            surplus: mean slack of the constraints relative to the thresholds, (P, 2, L).
        """
        length = _DESCENT.length(self.directions.count)
        step = length * self.directions.direction(surplus)
        self.scaled = (self.scaled - step).clamp_min(0.0)


class TunedProblems(Curriculum):
    """Curriculum of problems in dual descent, mixed with random prices.

    Every batch of a problem, with the network's powers for it, gives one step of its multipliers.

    Args:
        cells: cells and random prices to draw; None uses the defaults.
        seed: seed of the choice of cells.

    Attributes:
        cells: problems of each cell in dual descent, by index.
    """

    state_types = (CellProblems, AdamDirections, Prices, Scenario)

    def __init__(self, cells: AnyScenario | None = None, *, seed: int = 0) -> None:
        self._any = cells or AnyScenario()
        self._seed = seed
        self._draws = 0
        self.cells: dict[int, CellProblems] = {}
        self._last: tuple[CellProblems, ChannelBatch, Tensor] | None = None

    def draw(self, count: int, generator: torch.Generator) -> tuple[ChannelBatch, Prices]:
        """Draw channels of a cell in dual descent, or of a new cell with random prices.

        Channels of a cell in dual descent are assigned to its problems in turn.
        """
        # Drawn on the CPU, because transfers from a GPU synchronise.
        random = np.random.default_rng((self._seed, self._draws))
        self._draws += 1
        self._last = None
        if random.random() >= _DESCENT_PROBABILITY:
            return self._any.draw(count, generator)
        chosen = int(random.integers(_NUM_CELLS))
        problems = self.cells.get(chosen)
        if problems is None or problems.directions.count == _DESCENT.steps:
            cell = self._any.cell(RandomNumbers(generator))
            problems = self.cells[chosen] = CellProblems.drawn(cell, generator)
        csi = draw_csi(problems.scenario, count, generator)
        batch = ChannelBatch.from_scenario(problems.scenario, csi).to(torch.float32)
        rows = torch.arange(count, device=csi.device) % _NUM_PROBLEMS
        prices = problems.prices()
        self._last = problems, batch, rows
        return batch, prices.take(rows)

    def respond(self, power: Tensor) -> None:
        """Update the multipliers of the last batch from its constraints' slack at ``power``."""
        if self._last is None:
            return
        problems, batch, rows = self._last
        rate = link.rate(batch.sinr(power))
        efficiency = link.efficiency_of_rate(
            rate, power, batch.static_power_w, batch.amplifier_inefficiency
        )
        surplus = torch.stack((rate, efficiency), dim=1) / problems.thresholds[rows] - 1
        surplus = torch.where(power[:, None] > 0, surplus, 0.0)
        mean = torch.zeros_like(problems.scaled).index_add_(0, rows, surplus)
        problems.descend(mean * (_NUM_PROBLEMS / len(power)))

    def identity(self) -> dict[str, Any]:
        """Ranges of the cells, and seed."""
        return {"tuned problems of": self._any.identity(), "seed": self._seed}

    def state(self) -> dict[str, Any]:
        """Number of batches drawn, and the problems in dual descent."""
        return {"draws": self._draws, "cells": self.cells}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the number of batches and the problems."""
        self._draws, self.cells = state["draws"], state["cells"]


def _interference_free_means(
    scenario: Scenario, level: Tensor, generator: torch.Generator
) -> Tensor:
    """Interference-free mean rate and efficiency, (P, 2), at powers given by ``level`` (P,).

    Level 0 is the most efficient power, level 1 is Pmax; between them, ln p is linear in the level.
    """
    csi = draw_csi(scenario, _THRESHOLD_CHANNELS, generator)
    batch = ChannelBatch.from_scenario(scenario, csi)
    static, inefficiency = batch.static_power_w, batch.amplifier_inefficiency
    efficient = link.most_efficient_power(batch.direct, static, inefficiency)
    level = level[:, None, None].to(batch.direct)
    power = torch.minimum(efficient, batch.pmax_w) ** (1 - level) * batch.pmax_w**level
    rate = link.rate(batch.direct * power)
    efficiency = link.efficiency_of_rate(rate, power, static, inefficiency)
    return torch.stack((rate, efficiency), dim=1).mean((-2, -1)).to(torch.float32)
