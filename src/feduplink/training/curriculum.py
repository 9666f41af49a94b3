"""The curriculum of ``pdx``: random channels with random prices, and problems on their way to
feasible multipliers.

The inner problem of the dual is a matter of the gains in units of noise over Pmax, of the power
that sending draws, of the waterfall, and of the prices. A curriculum draws all of these.

Prices drawn at random are rarely those that the network is used with. At the multipliers of a
problem every worker is close to indifference between transmitting and silence, and there the
network has to be accurate. So half of the training problems have multipliers that follow the
network's own powers, as in the search for them (:mod:`feduplink.optimum.calibration`).
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

#: Multipliers times thresholds, in units of a worker's weight, for one scenario; further up, a
#: worker sends only in its few best channels.
_USUAL_PRICE = (0.003, 0.4)
_ANY_PRICE = (0.02, 6.0)
#: How much more or less than that of a channel the multiplier of a worker is.
_USUAL_SPREAD = (0.4, 2.0)
_ANY_SPREAD = (0.2, 3.0)
#: Channels that tell what workers reach alone.
_SCALE_CHANNELS = 64


class Curriculum:
    """Batches to train on; one without a state has :meth:`draw` and :meth:`identity` only."""

    def draw(self, count: int, generator: torch.Generator) -> tuple[ChannelBatch, Prices]:
        """Draw channels of one cell, each with prices (count, L) of its own, in float32."""
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """What distinguishes it from others, as JSON."""
        raise NotImplementedError

    def respond(self, power: Tensor) -> None:
        """Learn which powers, (count, L) W, the network chose for the last batch."""

    def state(self) -> Any:
        """All that the next batches depend on besides the generator, to be packed."""
        return None

    def restore(self, state: Any) -> None:
        """Continue from such a state."""


@dataclass(frozen=True)
class OneScenario(Curriculum):
    """One scenario, at any multipliers.

    Attributes:
        scenario: the cell, the radio, and the weights and thresholds of the problem.
        recorded: channels that batches are drawn from, with replacement, (N, L, L); None: those
            that the scenario's model draws.
    """

    scenario: Scenario
    recorded: Tensor | None = None

    def draw(self, count: int, generator: torch.Generator) -> tuple[ChannelBatch, Prices]:
        """Channels of the scenario and prices for its thresholds."""
        scenario, random = self.scenario, RandomNumbers(generator)
        batch = ChannelBatch.from_scenario(scenario, self._csi(count, generator)).to(torch.float32)
        weights = scenario.worker_weights.to(batch.direct).expand(count, -1)
        rate_min = scenario.rate_thresholds.to(batch.direct).clamp_min(1e-3)
        ee_min = scenario.ee_thresholds.to(batch.direct).clamp_min(1e-1)
        nothing = torch.zeros_like(weights)
        objective = Prices(weights, nothing, nothing, nothing)
        return batch, _with_constraints(objective, weights, (rate_min, ee_min), random)

    def _csi(self, count: int, generator: torch.Generator) -> Tensor:
        if self.recorded is None:
            return draw_csi(self.scenario, count, generator)
        device = generator.device
        chosen = torch.randint(len(self.recorded), (count,), generator=generator, device=device)
        return self.recorded.to(device)[chosen]

    def identity(self) -> dict[str, Any]:
        """The scenario and a checksum of recorded channels."""
        scenario = self.scenario.model_dump(mode="json")
        return {"scenario": scenario, "recorded": recording_identity(self.recorded)}


@dataclass(frozen=True)
class AnyScenario(Curriculum):
    """Whatever a user may bring: cells, radios, objectives, weights and thresholds of all kinds.

    Thresholds go up to somewhat above what workers reach in the mean when they are alone on the
    air at their best power; beyond, they would send in a few channels only.

    Attributes:
        workers: numbers of workers, one drawn for each batch.
        channel_models: of the cell; those with shadowing have the widest range of gains.
        antennas, cell_side_m: ranges of the cell.
        pmax_dbw: range of Pmax, dBW.
        interference: range of the interference factor.
        waterfall, static_power_w, amplifier_inefficiency: ranges of the radio, in half of the
            batches; otherwise those of the paper.
        thresholds: range relative to what workers reach alone.
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
        """Channels of a random cell, prices for random weights, objectives and thresholds."""
        random = RandomNumbers(generator)
        scenario = self.cell(random)
        workers = scenario.workers
        csi = draw_csi(scenario, count, generator)
        batch = ChannelBatch.from_scenario(scenario, csi).to(torch.float32)
        weights = random.weights(count, workers)
        rate, efficiency = _interference_free_scale(batch)
        rate_min, ee_min = (
            reached
            * random.log_uniform(*self.thresholds, count, 1)
            * torch.where(
                random.chance(0.5, count, 1), random.uniform(0.5, 1.5, count, workers), 1.0
            )
            for reached in (rate, efficiency)
        )
        objective = random_objectives(weights, rate, efficiency, random)
        return batch, _with_constraints(
            objective, weights, (rate_min, ee_min), random, price=_ANY_PRICE, spread=_ANY_SPREAD
        )

    def cell(self, random: RandomNumbers) -> Scenario:
        """A random cell with its radio."""
        # All at once: on a GPU every number that Python sees is waited for.
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
        """All ranges."""
        return {name: list(value) for name, value in vars(self).items()}


class RandomNumbers:
    """Random numbers of several kinds from one generator, on its device."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Between the limits."""
        unit = torch.rand(shape, generator=self._generator, device=self._generator.device)
        return low + (high - low) * unit

    def log_uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Between the limits, each factor alike."""
        return self.uniform(math.log(low), math.log(high), *shape).exp()

    def chance(self, probability: float, *shape: int) -> Tensor:
        """True with the probability."""
        return self.uniform(0, 1, *shape) < probability

    def weights(self, *shape: int) -> Tensor:
        """Of workers, (..., L); they add up to one."""
        weights = self.uniform(0.1, 1.0, *shape)
        return weights / weights.sum(-1, keepdim=True)


def random_objectives(
    weights: Tensor, rate: Tensor, efficiency: Tensor, random: RandomNumbers
) -> Prices:
    """Packet success for nine in ten rows of weights (N, L); for the others rate or efficiency.

    The latter are in units of the given ones, so that all objectives are of one size.
    """
    kind = random.uniform(0, 1, len(weights), 1)
    return Prices(
        torch.where(kind < 0.9, weights, 0.0),
        torch.where((kind >= 0.9) & (kind < 0.95), weights / rate, 0.0),
        torch.where(kind >= 0.95, weights / efficiency, 0.0),
        torch.zeros_like(weights),
    )


def _interference_free_scale(batch: ChannelBatch) -> tuple[Tensor, Tensor]:
    """Mean rate and mean efficiency of workers alone on the air at the best power for each.

    A few channels are enough to tell the scale.
    """
    static, inefficiency = batch.static_power_w, batch.amplifier_inefficiency
    gain = batch.direct[:_SCALE_CHANNELS]
    rate = link.rate(gain * batch.pmax_w)
    power = link.most_efficient_power(gain, static, inefficiency).to(gain)
    power = torch.minimum(power, batch.pmax_w)
    efficient = link.rate(gain * power)
    return rate.mean(), link.efficiency_of_rate(efficient, power, static, inefficiency).mean()


def _with_constraints(
    objective: Prices,
    weights: Tensor,
    thresholds: tuple[Tensor, Tensor],
    random: RandomNumbers,
    *,
    price: tuple[float, float] = _USUAL_PRICE,
    spread: tuple[float, float] = _USUAL_SPREAD,
) -> Prices:
    """With multipliers on both constraints.

    In units of the mean weight: none, or within the range of ``price``, alike for the workers of a
    channel up to a factor within that of ``spread``.
    """
    count, workers = weights.shape
    rate_min, ee_min = thresholds
    rate_price, ee_price = (
        random.log_uniform(*price, count, 1)
        * random.log_uniform(*spread, count, workers)
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


#: Which share of the batches comes from tuned problems; the others have random prices.
_SHARE = 0.6
#: Cells that are under way at once, and problems of each.
_CELLS, _PROBLEMS = 64, 16
#: How their multipliers are found; then the cell is replaced.
_DESCENT = DescentStage(steps=80, channels=128, first=0.3, last=0.02, averaged=0.0)
#: Thresholds are such shares of what workers reach alone, told by so many channels.
_THRESHOLDS = (0.02, 1.05)
_THRESHOLD_CHANNELS = 256


@dataclass
class CellProblems:
    """P problems of one cell.

    Attributes:
        scenario: the cell and its radio.
        weights: of the workers, (P, L).
        objective: prices of the objective, (P, L).
        thresholds: of rate and efficiency, (P, 2, L).
        scaled: multipliers in units of weight over threshold, (P, 2, L).
        directions: of their steps.
    """

    scenario: Scenario
    weights: Tensor
    objective: Prices
    thresholds: Tensor
    scaled: Tensor
    directions: AdamDirections

    @classmethod
    def drawn(cls, scenario: Scenario, generator: torch.Generator) -> CellProblems:
        """Weights, objectives and thresholds of all kinds, and no multipliers yet."""
        random = RandomNumbers(generator)
        workers = scenario.workers
        weights = random.weights(_PROBLEMS, workers)
        reached = _interference_free_means(scenario, random.uniform(0, 1, _PROBLEMS), generator)
        shares = torch.where(
            random.chance(0.5, _PROBLEMS, 1, 1),
            random.uniform(*_THRESHOLDS, _PROBLEMS, 2, workers),
            random.uniform(*_THRESHOLDS, _PROBLEMS, 2, 1),
        )
        objective = random_objectives(weights, reached[:, :1], reached[:, 1:], random)
        scaled = torch.zeros_like(shares)
        directions = AdamDirections.for_variables(scaled)
        return cls(scenario, weights, objective, shares * reached[..., None], scaled, directions)

    def prices(self) -> Prices:
        """At the present multipliers, (P, L) each."""
        paid = self.scaled * self.weights[:, None]
        by_rate, by_efficiency = (paid / self.thresholds).unbind(1)
        own = self.objective
        return replace(
            own,
            rate=own.rate + by_rate,
            efficiency=own.efficiency + by_efficiency,
            activation_cost=paid.sum(1),
        )

    def descend(self, surplus: Tensor) -> None:
        """A step of the multipliers, from the relative surplus of the constraints, (P, 2, L)."""
        length = _DESCENT.length(self.directions.count)
        step = length * self.directions.direction(surplus)
        self.scaled = (self.scaled - step).clamp_min(0.0)


class TunedProblems(Curriculum):
    """A curriculum: problems under way to their multipliers, and random prices between them.

    Attributes:
        cells: the problems of each cell under way, by number.
    """

    state_types = (CellProblems, AdamDirections, Prices, Scenario)

    def __init__(self, cells: AnyScenario | None = None, *, seed: int = 0) -> None:
        self._any = cells or AnyScenario()
        self._seed = seed
        self._draws = 0
        self.cells: dict[int, CellProblems] = {}
        self._last: tuple[CellProblems, ChannelBatch, Tensor] | None = None

    def draw(self, count: int, generator: torch.Generator) -> tuple[ChannelBatch, Prices]:
        """Channels of a cell under way, its problems in turn; or of another, at random prices."""
        # What is chosen on the host is drawn there: a GPU would have to be waited for.
        random = np.random.default_rng((self._seed, self._draws))
        self._draws += 1
        self._last = None
        if random.random() >= _SHARE:
            return self._any.draw(count, generator)
        chosen = int(random.integers(_CELLS))
        problems = self.cells.get(chosen)
        if problems is None or problems.directions.count == _DESCENT.steps:
            cell = self._any.cell(RandomNumbers(generator))
            problems = self.cells[chosen] = CellProblems.drawn(cell, generator)
        csi = draw_csi(problems.scenario, count, generator)
        batch = ChannelBatch.from_scenario(problems.scenario, csi).to(torch.float32)
        rows = torch.arange(count, device=csi.device) % _PROBLEMS
        prices = problems.prices()
        self._last = problems, batch, rows
        return batch, prices.take(rows)

    def respond(self, power: Tensor) -> None:
        """Move the multipliers of the last batch by what the network left of the constraints."""
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
        problems.descend(mean * (_PROBLEMS / len(power)))

    def identity(self) -> dict[str, Any]:
        """The ranges of the cells and the seed."""
        return {"tuned problems of": self._any.identity(), "seed": self._seed}

    def state(self) -> dict[str, Any]:
        """All problems under way."""
        return {"draws": self._draws, "cells": self.cells}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with these problems."""
        self._draws, self.cells = state["draws"], state["cells"]


def _interference_free_means(
    scenario: Scenario, level: Tensor, generator: torch.Generator
) -> Tensor:
    """Mean rate and efficiency of workers alone on the air, (P, 2).

    For every level (P,) at another power: 0 is the most efficient one, 1 is Pmax.
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
