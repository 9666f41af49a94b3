"""Problems of random cells on their way to the multipliers that make their constraints hold.

Prices that are drawn at random are seldom those that the network is asked about. At the multipliers
of a problem every worker is near the point where being on the air just pays, and who sends is
decided by little; that is where the network has to be right. So half of what it is trained on are
problems whose multipliers follow its own powers, as in the search for them (``dual_descent``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import draw_csi
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.learning.curriculum import AnyScenario, RandomNumbers, random_objectives
from feduplink.policies.dual_descent import AdamDirections, Phase
from feduplink.scenario import Scenario
from feduplink.tensorfile import TensorFile

#: Which share of the batches comes from tuned problems; the others have random prices.
_SHARE = 0.6
#: Cells that are under way at once, and problems of each.
_CELLS, _PROBLEMS = 64, 16
#: How their multipliers are found; then the cell is replaced.
_DESCENT = Phase(steps=80, channels=128, first=0.3, last=0.02, averaged=0.0)
#: Thresholds are such shares of what workers reach alone, told by so many channels.
_THRESHOLDS = (0.02, 1.05)
_FEW_CHANNELS = 256


@dataclass
class _CellProblems:
    """P problems of one cell.

    Attributes:
        scenario: the cell and its radio.
        weights: of the workers, (P, L).
        success, rate, efficiency: prices of the objective, (P, L).
        thresholds: of rate and efficiency, (P, 2, L).
        scaled: multipliers in units of weight over threshold, (P, 2, L).
        directions: of their steps.
    """

    scenario: Scenario
    weights: Tensor
    success: Tensor
    rate: Tensor
    efficiency: Tensor
    thresholds: Tensor
    scaled: Tensor
    directions: AdamDirections

    @classmethod
    def drawn(cls, scenario: Scenario, generator: torch.Generator) -> _CellProblems:
        """Weights, objectives and thresholds of all kinds, and no multipliers yet."""
        random = RandomNumbers(generator)
        workers = scenario.workers
        weights = random.weights(_PROBLEMS, workers)
        reached = _reached_alone(scenario, random.uniform(0, 1, _PROBLEMS), generator)
        shares = torch.where(
            random.chance(0.5, _PROBLEMS, 1, 1),
            random.uniform(*_THRESHOLDS, _PROBLEMS, 2, workers),
            random.uniform(*_THRESHOLDS, _PROBLEMS, 2, 1),
        )
        objective = random_objectives(weights, reached[:, :1], reached[:, 1:], random)
        scaled = torch.zeros_like(shares)
        return cls(
            scenario,
            weights,
            objective.success,
            objective.rate,
            objective.efficiency,
            shares * reached[..., None],
            scaled,
            AdamDirections.for_variables(scaled),
        )

    def prices(self) -> Prices:
        """At the present multipliers, (P, L) each."""
        paid = self.scaled * self.weights[:, None]
        by_rate, by_efficiency = (paid / self.thresholds).unbind(1)
        return Prices(
            self.success, self.rate + by_rate, self.efficiency + by_efficiency, paid.sum(1)
        )

    def descend(self, surplus: Tensor) -> None:
        """A step of the multipliers, from the relative surplus of the constraints, (P, 2, L)."""
        length = _DESCENT.length(self.directions.count)
        step = length * self.directions.direction(surplus)
        self.scaled = (self.scaled - step).clamp_min(0.0)


class TunedProblems:
    """A curriculum: problems under way to their multipliers, and random prices between them."""

    def __init__(self, cells: AnyScenario | None = None, *, seed: int = 0) -> None:
        self._any = cells or AnyScenario()
        self._seed = seed
        self._draws = 0
        self._cells: dict[int, _CellProblems] = {}
        self._last: tuple[_CellProblems, ChannelBatch, Tensor] | None = None

    def draw(self, count: int, generator: torch.Generator) -> tuple[ChannelBatch, Prices]:
        """Channels of a cell under way, its problems in turn; or of another, at random prices."""
        # What is chosen on the host is drawn there: a GPU would have to be waited for.
        random = np.random.default_rng((self._seed, self._draws))
        self._draws += 1
        self._last = None
        if random.random() >= _SHARE:
            return self._any.draw(count, generator)
        chosen = int(random.integers(_CELLS))
        problems = self._cells.get(chosen)
        if problems is None or problems.directions.count == _DESCENT.steps:
            cell = self._any.cell(RandomNumbers(generator))
            problems = self._cells[chosen] = _CellProblems.drawn(cell, generator)
        csi = draw_csi(problems.scenario, count, generator)
        batch = ChannelBatch.from_scenario(problems.scenario, csi).to(torch.float32)
        rows = torch.arange(count, device=csi.device) % _PROBLEMS
        prices = problems.prices()
        self._last = problems, batch, rows
        return batch, Prices(
            prices.success[rows],
            prices.rate[rows],
            prices.efficiency[rows],
            prices.activation_cost[rows],
        )

    def respond(self, power: Tensor) -> None:
        """Move the multipliers of the last batch by what the network left of the constraints."""
        if self._last is None:
            return
        problems, batch, rows = self._last
        rate = link.rate(batch.sinr(power))
        efficiency = link.energy_efficiency(
            rate, power, batch.static_power_w, batch.amplifier_inefficiency
        )
        surplus = torch.stack((rate, efficiency), dim=1) / problems.thresholds[rows] - 1
        surplus = torch.where(power[:, None] > 0, surplus, 0.0)
        mean = torch.zeros_like(problems.scaled).index_add_(0, rows, surplus)
        problems.descend(mean * (_PROBLEMS / len(power)))

    def identity(self) -> dict[str, Any]:
        """The ranges of the cells and the seed."""
        return {"tuned problems of": self._any.identity(), "seed": self._seed}

    def state(self) -> TensorFile:
        """All problems under way."""
        tensors = {
            f"{number}.{name}": value
            for number, problems in self._cells.items()
            for name, value in _tensors(problems).items()
        }
        cells = {
            str(number): {
                "scenario": problems.scenario.model_dump(mode="json"),
                "visits": problems.directions.count,
            }
            for number, problems in self._cells.items()
        }
        return TensorFile(tensors, {"draws": self._draws, "cells": cells})

    def restore(self, state: TensorFile, device: torch.device) -> None:
        """Go on with these problems, on a device."""
        self._draws = state.header["draws"]
        self._cells = {}
        for number, cell in state.header["cells"].items():
            tensors = {name: t.to(device) for name, t in state.under(f"{number}.").items()}
            directions = AdamDirections(tensors.pop("mean"), tensors.pop("square"), cell["visits"])
            scenario = Scenario(**cell["scenario"])
            self._cells[int(number)] = _CellProblems(scenario, directions=directions, **tensors)


def _tensors(problems: _CellProblems) -> dict[str, Tensor]:
    own = {field.name: getattr(problems, field.name) for field in fields(problems)}
    tensors = {name: value for name, value in own.items() if isinstance(value, Tensor)}
    return {
        **tensors,
        "mean": problems.directions.mean,
        "square": problems.directions.square,
    }


def _reached_alone(scenario: Scenario, level: Tensor, generator: torch.Generator) -> Tensor:
    """Mean rate and efficiency of workers alone on the air, (P, 2).

    For every level (P,) at another power: 0 is the most efficient one, 1 is Pmax.
    """
    csi = draw_csi(scenario, _FEW_CHANNELS, generator)
    batch = ChannelBatch.from_scenario(scenario, csi)
    static, inefficiency = batch.static_power_w, batch.amplifier_inefficiency
    efficient = link.most_efficient_power(batch.direct, static, inefficiency)
    level = level[:, None, None].to(batch.direct)
    power = torch.minimum(efficient, batch.pmax_w) ** (1 - level) * batch.pmax_w**level
    rate = link.rate(batch.direct * power)
    efficiency = link.energy_efficiency(rate, power, static, inefficiency)
    return torch.stack((rate, efficiency), dim=1).mean((-2, -1)).to(torch.float32)
