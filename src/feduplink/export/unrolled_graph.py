"""``pdx`` as a graph of few operations, whose number determines the run time for one channel.

The network of ``policies.pdx_network`` with the same weights in fewer operations. An iteration's
features of a worker are products of positive factors (prices, powers, gates, SINRs), sums of
products, and logarithms. The graph stores the logarithms of all factors, the *columns*. The
logarithms of all products are then one multiplication by a matrix of exponents, the products one
exponential, and sums of products are folded into the weights of the next layer.

The formulas are those of the network and of ``link.quality``; :func:`feduplink.export.export_onnx`
compares the file with the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from feduplink.policies import UnrolledPolicy
from feduplink.policies.pdx_network import (
    ALONE,
    AS_GOOD,
    LEAST_GAIN,
    OPEN,
    SMALL,
    TINY,
    WIDTH,
    UnrolledNetwork,
    UnrolledStep,
    price_unit,
)

#: Lower clamp of prices under the logarithm.
_MIN_PRICE = 1e-30
#: Maximum magnitude of ln SINR, beyond which the success of a link is certain or impossible.
_MAX_LOG = 80.0
#: Factor on the logits of the gates that makes the gates 0 or 1.
_HARD_GATE = 1e30


class Column(IntEnum):
    """Columns of a worker, logarithms unless stated otherwise; powers are relative to Pmax."""

    # Constants, first the features of the network in its order.
    DIRECT = 0  # α Pmax
    FEATURE_PSR = 1  # price of the packet success rate + SMALL
    FEATURE_RATE = 2
    FEATURE_EE = 3
    FEATURE_ACTIVATION = 4
    DRAW = 5  # μ Pmax / P_c, with μ the inefficiency of the amplifier
    WATERFALL = 6  # waterfall threshold m
    PRICE_PSR = 7
    PRICE_RATE = 8
    PRICE_EE = 9
    PRICE_ACTIVATION = 10
    ACTIVATION_COST = 11  # the price itself, not its logarithm
    ONE = 12  # the number 1
    # State of an iteration.
    ATTENUATION = 13  # −ln p
    CLOSING = 14  # −ln gate
    INTERFERENCE = 15  # 1 + Σ β p


class Link(IntEnum):
    """Further columns: ln(1 + e^x), its logarithm, and e^x, for three x.

    The x are ln SINR, ln(m / SINR) and ln(draw p). Unnamed columns are unused.
    """

    RATE = 16  # ln(1 + SINR), the rate itself
    CONSUMPTION = 18  # ln(1 + draw p)
    LOG_RATE = 19
    LOSS = 23  # m / SINR itself; the packet success rate is exp(−LOSS)


_COLUMNS = len(Column) + 3 * 3
_CONSTANTS = list(Column)[: Column.ATTENUATION]
_NETWORK_CONSTANTS = list(Column)[: Column.PRICE_PSR]


def _unit(index: int) -> Tensor:
    """Exponents of a single column, one per column of :class:`Column` and :class:`Link`."""
    return nn.functional.one_hot(torch.tensor(index), _COLUMNS).float()


# Exponents of products of columns.
LOG_POWER = -_unit(Column.ATTENUATION)
LOG_GATE = -_unit(Column.CLOSING)
LOG_SINR = _unit(Column.DIRECT) + LOG_POWER - _unit(Column.INTERFERENCE)
LOG_LOSS = _unit(Column.WATERFALL) - LOG_SINR
LOG_DRAWN = _unit(Column.DRAW) + LOG_POWER
#: q = 1 / (1 + draw p), so that the energy efficiency is rate · q / P_c.
LOG_Q = -_unit(Link.CONSUMPTION)
# Contributions of an active worker to the Lagrangian, by measure.
VALUE_PSR = _unit(Column.PRICE_PSR) - _unit(Link.LOSS)
VALUE_RATE = _unit(Column.PRICE_RATE) + _unit(Link.LOG_RATE)
VALUE_EE = _unit(Column.PRICE_EE) + _unit(Link.LOG_RATE) + LOG_Q
# Their slopes in ln SINR: PSR · m / SINR for the PSR, SINR / (1 + SINR) for the rate.
SLOPE_PSR = VALUE_PSR + LOG_LOSS
SLOPE_RATE = _unit(Column.PRICE_RATE) - _unit(Link.RATE) + LOG_SINR
SLOPE_EE = _unit(Column.PRICE_EE) - _unit(Link.RATE) + LOG_SINR + LOG_Q
#: Negative slope of the energy efficiency in ln p at fixed SINR, from dq/d ln p = −q² draw p.
DRAW_COST = VALUE_EE + LOG_Q + LOG_DRAWN


class Product(IntEnum):
    """Products of columns that an iteration computes for every worker."""

    GATE = 0
    VALUE_PSR = 1
    VALUE_RATE = 2
    VALUE_EE = 3
    SLOPE_PSR = 4
    SLOPE_RATE = 5
    SLOPE_EE = 6
    GATED_SLOPE_PSR = 7
    GATED_SLOPE_RATE = 8
    GATED_SLOPE_EE = 9
    DRAW_COST = 10


_VALUES = (VALUE_PSR, VALUE_RATE, VALUE_EE)
_SLOPES = (SLOPE_PSR, SLOPE_RATE, SLOPE_EE)
#: Exponents of the products, in the order of :class:`Product`.
_EXPONENTS = (LOG_GATE, *_VALUES, *_SLOPES, *(slope + LOG_GATE for slope in _SLOPES), DRAW_COST)
#: Exponents of the last iteration's values, price of being active, and power.
_END_EXPONENTS = (*_VALUES, _unit(Column.PRICE_ACTIVATION), LOG_POWER)

#: Number of inputs of the folded layers: columns, products, and products of the workers that a
#: worker interferes with, weighted by its shares of their noise and interference.
_INPUTS = len(Column) + 2 * len(Product)


def _input(
    columns: Iterable[Column] = (),
    own: Iterable[Product] = (),
    disturbed: Iterable[Product] = (),
) -> Tensor:
    """Coefficients of a sum of inputs of the folded layers, (_INPUTS,).

    Args:
        columns: columns of the worker.
        own: products of the worker.
        disturbed: products of the workers that the worker interferes with.
    """
    coefficients = torch.zeros(_INPUTS)
    coefficients[[*columns]] = 1.0
    coefficients[[len(Column) + product for product in own]] = 1.0
    coefficients[[len(Column) + len(Product) + product for product in disturbed]] = 1.0
    return coefficients


_MARGINAL_VALUE = _input(own=(Product.SLOPE_PSR, Product.SLOPE_RATE, Product.SLOPE_EE))
_GATED_SLOPES = (Product.GATED_SLOPE_PSR, Product.GATED_SLOPE_RATE, Product.GATED_SLOPE_EE)
#: Decrease of the Lagrangian per unit of ln p, due to interference and consumption.
_MARGINAL_COST = _input(own=[Product.DRAW_COST], disturbed=_GATED_SLOPES)
#: The network's features that are linear in the inputs, in its order.
_LINEAR_FEATURES = (
    *(_input([column]) for column in _NETWORK_CONSTANTS),
    -_input([Column.ATTENUATION]),
    _input(own=[Product.GATE]),
    _input(own=(Product.VALUE_PSR, Product.VALUE_RATE, Product.VALUE_EE))
    - _input([Column.ACTIVATION_COST]),
    _MARGINAL_COST,
    _input([Column.INTERFERENCE]),
)
#: The features that are logarithms of sums of inputs; they follow the linear ones.
_LOG_FEATURES = tuple(
    coefficients + TINY * _input([Column.ONE]) for coefficients in (_MARGINAL_VALUE, _MARGINAL_COST)
)


def _matrix(columns: Sequence[Tensor], rows: int | None = None) -> Tensor:
    """Matrix with the given vectors as columns, truncated to ``rows`` rows."""
    return torch.stack([*columns], dim=-1)[:rows] + 0.0  # removes negative zeros


class _State(NamedTuple):
    """State at an iteration's output, (2, N, L, any) each; the first dimension is the start.

    Attributes:
        received: interference β p of every pair, (2, N, L, L).
        interference: noise plus interference 1 + Σ β p, (2, N, L, 1).
        columns: the columns of :class:`Column`.
        all_columns: these and the columns of :class:`Link`.
    """

    received: Tensor
    interference: Tensor
    columns: Tensor
    all_columns: Tensor


class UnrolledGraph(nn.Module):
    """The network at the prices of a policy, as a module for export.

    The prices are those of each worker if the number of workers is that of the policy's scenario,
    and their means otherwise; the file chooses at run time.

    Args:
        policy: the policy, with its network, scenario and multipliers.
    """

    def __init__(self, policy: UnrolledPolicy) -> None:
        super().__init__()
        scenario, network = policy.scenario, policy.network
        self.workers, self.any_number = scenario.workers, policy.fixed_workers is None
        # Four dimensions: starts, channels, workers, and columns or workers.
        pmax_w = scenario.max_power.float()
        self.pmax_w = nn.Buffer(pmax_w.expand(1, 1, 1, *pmax_w.shape or (1,)))
        self.alone_backoff = nn.Buffer(torch.tensor(ALONE))
        self.alone_power = nn.Buffer(torch.sigmoid(-self.alone_backoff))
        self.minus_waterfall = nn.Buffer(torch.tensor(-scenario.waterfall))
        draw = scenario.amplifier_inefficiency * pmax_w / scenario.static_power.float()
        tables = [self._table(policy, draw, self.workers)]
        if self.any_number:
            tables.append(self._table(policy, draw, 1))
        self.table = nn.Buffer(torch.cat(tables))
        self.is_direct = nn.Buffer(_unit(Column.DIRECT)[: len(_CONSTANTS)])
        # In the second start only the worker with the highest value is active.
        self.all_start = nn.Buffer(torch.tensor((-torch.inf, 0.0)).reshape(2, 1, 1, 1))

        self.gated_power = nn.Buffer(torch.tensor(((-1.0, -1.0),)))
        self.logs = nn.Buffer(_matrix((LOG_SINR, LOG_LOSS, LOG_DRAWN), len(Column)))
        self.products = nn.Buffer(_matrix(_EXPONENTS))
        self.logarithms = nn.Buffer(_matrix(_LOG_FEATURES))
        self.at_end = nn.Buffer(_matrix([exponents + LOG_GATE for exponents in _END_EXPONENTS]))
        self.hard = nn.Buffer(torch.tensor((1.0, _HARD_GATE)))
        value = torch.tensor((1.0, 1.0, 1.0, -1.0, 0.0))
        self.first_is_better = nn.Buffer(torch.stack((value, -AS_GOOD * value))[:, None, None])
        self._fold(network)

    def _table(self, policy: UnrolledPolicy, draw: Tensor, workers: int) -> Tensor:
        """Constants of every worker, followed by the prices for :meth:`_starts`, (workers, any)."""
        scenario = policy.scenario
        prices = policy.prices(torch.ones(1, workers, workers)).to(torch.float32)
        prices.check_usual(policy.name)
        static = scenario.static_power.float()
        unit = price_unit(prices, static)
        by_measure = (
            prices.success,
            prices.rate,
            prices.efficiency / static,
            prices.activation_cost,
        )
        values = torch.stack([(price / unit).expand(workers) for price in by_measure], dim=-1)
        ones = torch.ones(workers, 1)
        drawn = draw[..., None] * ones
        success, rate, efficiency, activation = values.split(1, dim=-1)
        constants = (
            0 * ones,  # the direct gain is added at run time
            *(values + SMALL).log().split(1, dim=-1),
            drawn.log(),
            math.log(scenario.waterfall) * ones,
            *values.clamp_min(_MIN_PRICE).log().split(1, dim=-1),
            activation,
            ones,
        )
        rate_alone = rate + efficiency / (1 + drawn * self.alone_power)
        return torch.cat((*constants, success, activation, rate_alone), dim=-1)

    def _fold(self, network: UnrolledNetwork) -> None:
        """Convert the weights of the network's features to weights of the inputs."""
        linear_features = _matrix(_LINEAR_FEATURES)
        # Negative logit of the gate, so that its softplus is the column CLOSING.
        signs = torch.tensor((1.0, -1.0))

        def fold(weight: Tensor) -> Tensor:
            linear, logarithms = weight.split((len(_LINEAR_FEATURES), len(_LOG_FEATURES)), dim=-1)
            return torch.cat((linear_features @ linear.mT, logarithms.mT))

        with torch.no_grad():
            embed = cast("nn.Linear", network.embed[0])
            self.embed = nn.Buffer(fold(embed.weight))
            self.embed[Column.ONE] += embed.bias
            self.origin = network.origin
            self.start = nn.Buffer(network.start.weight.mT * signs)
            self.start_bias = nn.Buffer(network.start.bias * signs)
            self.steps = nn.ModuleList()
            for step in cast("list[UnrolledStep]", list(network.steps)):
                memories, features = step.look.weight.split(
                    (3 * WIDTH, len(_LINEAR_FEATURES) + len(_LOG_FEATURES)), dim=-1
                )
                weight = torch.cat((memories.mT, fold(features)))
                self.steps.append(_Step(step, weight, step.read.weight.mT * signs))

    def forward(self, csi: Tensor) -> Tensor:
        """Compute powers relative to Pmax.

        Args:
            csi: (N, L, L), linear, relative to the noise power.

        Returns:
            (N, L), in [0, 1].
        """
        received = (csi * self.pmax_w).clamp(LEAST_GAIN, 1 / LEAST_GAIN)
        workers = torch.arange(csi.shape[-1], device=csi.device)
        table: Tensor = self.table
        if self.any_number:
            has_prices = torch.scalar_tensor(csi.shape[-1], dtype=torch.int64) == self.workers
            table = nn.functional.embedding(torch.where(has_prices, workers, self.workers), table)
        constants, *alone = table.split((len(_CONSTANTS), 1, 1, len(ALONE)), dim=-1)
        # A product, because ONNX Runtime takes twice as long for "where".
        own = received * (workers[:, None] == workers).to(received)
        cross = received - own
        direct = own.sum(-1, keepdim=True)
        log_direct = direct.log()
        constants = log_direct * self.is_direct + constants
        constants = torch.cat((constants, constants))

        output = self._starts(direct, log_direct, *alone)
        inputs, _ = self._inputs(constants, cross, output)
        memory = nn.functional.silu(torch.cat(inputs, dim=-1) @ self.embed) + self.origin
        output = output + (memory @ self.start + self.start_bias)
        for step in self.steps:
            inputs, share = self._inputs(constants, cross, output)
            memory, change = step(memory, inputs, share)
            output = output + change
        return self._better_end(constants, cross, output)

    def _starts(
        self, direct: Tensor, log_direct: Tensor, success: Tensor, activation: Tensor, rate: Tensor
    ) -> Tensor:
        """Starts with equal received powers and with one active worker, (2, N, L, 2).

        See ``starts`` of the network's features. ``rate`` (..., L, len(ALONE)) is the price of the
        rate plus that of the efficiency at the powers of ALONE.
        """
        equal = log_direct - log_direct.amin(-2, keepdim=True)
        sinr = direct * self.alone_power
        psr = torch.exp(self.minus_waterfall / sinr)
        value = success * psr + rate * sinr.log1p() - activation
        best = value.amax(-1, keepdim=True)
        alone = nn.functional.embedding(value.argmax(-1), self.alone_backoff[:, None])
        backoff = torch.cat((equal, alone))
        is_active = best >= best.amax(-2, keepdim=True) + self.all_start
        closing = torch.where(is_active, -OPEN, OPEN)
        return torch.cat((backoff, closing), dim=-1)

    def _state(self, constants: Tensor, cross: Tensor, output: Tensor) -> _State:
        """State at an output (2, N, L, 2): attenuations and negative logits of the gates."""
        negative_logs = nn.functional.softplus(output)
        received = cross * torch.exp(self.gated_power @ negative_logs.mT)
        interference = 1 + received.sum(-1, keepdim=True)
        columns = torch.cat((constants, negative_logs, interference.log()), dim=-1)
        logs = (columns @ self.logs).clamp(-_MAX_LOG, _MAX_LOG)
        log1p = nn.functional.softplus(logs)
        link = (log1p, log1p.log(), logs.exp())
        return _State(received, interference, columns, torch.cat((columns, *link), dim=-1))

    def _inputs(
        self, constants: Tensor, cross: Tensor, output: Tensor
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Inputs of the folded layers (linear and logarithmic), and shares (2, N, L, L)."""
        state = self._state(constants, cross, output)
        share = state.received / state.interference
        products = (state.all_columns @ self.products).exp()
        linear = torch.cat((state.columns, products, share.mT @ products), dim=-1)
        return (linear, (linear @ self.logarithms).log()), share

    def _better_end(self, constants: Tensor, cross: Tensor, output: Tensor) -> Tensor:
        """Powers relative to Pmax of the better result, gates 0 or 1, (N, L)."""
        columns = self._state(constants, cross, output * self.hard).all_columns
        ends = (columns @ self.at_end).exp()
        margin = (ends * self.first_is_better).sum((0, 2, 3), keepdim=True)
        first, second = ends.split(1)
        better: Tensor = torch.where(margin >= 0, first, second)
        return better[0, ..., -1]


class _Step(nn.Module):
    """An iteration of the network with its first layer folded."""

    def __init__(self, step: UnrolledStep, look: Tensor, read: Tensor) -> None:
        super().__init__()
        self.look, self.read = nn.Buffer(look), nn.Buffer(read)
        self.look_at_all, self.conclude, self.norm = step.look_at_all, step.conclude, step.norm

    def forward(
        self, memory: Tensor, inputs: tuple[Tensor, Tensor], share: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Update the memory; return it with the change of the output, (2, N, L, 2)."""
        joined = torch.cat((memory, share @ memory, share.mT @ memory, *inputs), dim=-1)
        hidden = joined @ self.look + self.look_at_all(memory.mean(-2, keepdim=True))
        memory = self.norm(memory + self.conclude(nn.functional.silu(hidden)))
        return memory, memory @ self.read
