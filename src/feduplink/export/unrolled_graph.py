"""``pdx`` in few operations: ONNX Runtime takes for ten numbers about as long as for a hundred.

The network of ``policies.unrolled_network``, from the same weights, in 0.6 as many operations.
What an iteration sees of a worker are products of positive factors (prices, powers, gates, SINRs),
sums of them, and logarithms. So here all is kept as logarithms, in columns with names: a matrix of
exponents gives the logarithms of all products at once, and one exponential the products. Sums that
the network's first layer can take are left to it, by its weights.

The formulas are those of the network and of ``link.quality``; what is exported is compared with
them (:func:`feduplink.export.export_onnx`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
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

#: Constants of a worker. First what the network sees, in its order: logarithms of α Pmax, of the
#: prices and a little, of what sending at Pmax draws over P_c, of the waterfall m. Then those of
#: the prices as they are; and two numbers.
_SEEN = ("direct", "~success", "~rate", "~efficiency", "~activation", "draw", "waterfall")
_PRICES = ("success", "rate", "efficiency", "activation")
_CONSTANTS = (*_SEEN, *_PRICES, "activation cost", "one")
#: What an iteration changes, for powers over Pmax: −ln p, −ln gate, ln(1 + Σ β p).
_STATE = ("attenuation", "closing", "interference")
_COLUMNS = (*_CONSTANTS, *_STATE)
#: What follows from the logarithms x of SINR, m / SINR and the draw: of each ln(1 + e^x), the
#: logarithm of that, and e^x; "" is of no use.
_LINK = ("nats", "", "consumption", "log nats", "", "", "", "loss", "")
#: A price of 0 has no logarithm; this one is as good as none.
_NO_PRICE = 1e-30
#: Logarithms of SINRs end here: such a link is as good as none, or perfect.
_MOST = 80.0
#: Times a logit: a gate of 0 or 1.
_HARD = 1e30

#: A sum of columns by name, with coefficients: the logarithm of a product of powers.
_Sum = dict[str, float]


def _plus(*sums: _Sum) -> _Sum:
    names = dict.fromkeys(name for terms in sums for name in terms)
    return {name: sum(terms.get(name, 0.0) for terms in sums) for name in names}


_LOG_SINR: _Sum = {"direct": 1, "attenuation": -1, "interference": -1}
_LOG_LOSS: _Sum = _plus({"waterfall": 1}, {name: -sign for name, sign in _LOG_SINR.items()})
_LOG_DRAWN: _Sum = {"draw": 1, "attenuation": -1}
_POWER: _Sum = {"attenuation": -1}
_GATE: _Sum = {"closing": -1}
#: q = 1 / (1 + draw p), and what a worker on the air is worth by success, rate and efficiency.
_Q: _Sum = {"consumption": -1}
_WORTH: dict[str, _Sum] = {
    "worth 0": {"success": 1, "loss": -1},
    "worth 1": {"rate": 1, "log nats": 1},
    "worth 2": _plus({"efficiency": 1, "log nats": 1}, _Q),
}
#: Its derivatives in ln SINR: of PSR, PSR m / SINR; of R, SINR / (1 + SINR).
_BY_SINR: dict[str, _Sum] = {
    "by sinr 0": _plus({"success": 1, "loss": -1}, _LOG_LOSS),
    "by sinr 1": _plus({"rate": 1, "nats": -1}, _LOG_SINR),
    "by sinr 2": _plus({"efficiency": 1, "nats": -1}, _LOG_SINR, _Q),
}
_GATED = {f"gated {name}": _plus(terms, _GATE) for name, terms in _BY_SINR.items()}
_PRODUCTS: dict[str, _Sum] = {
    "gate": _GATE,
    **_WORTH,
    **_BY_SINR,
    **_GATED,
    # The derivative of q in ln p is −q² draw p.
    "draw cost": _plus(_WORTH["worth 2"], _Q, _LOG_DRAWN),
}
#: What the others that a worker disturbs have of these, weighted by its share of their noise and
#: interference.
_OTHERS = tuple(f"others' {name}" for name in _PRODUCTS)
_LOOKED_AT = (*_COLUMNS, *_PRODUCTS, *_OTHERS)
_BY_SINR_SUM: _Sum = dict.fromkeys(_BY_SINR, 1.0)
_HARM: _Sum = {**{f"others' {name}": 1.0 for name in _GATED}, "draw cost": 1.0}
#: What the network sees: linear in what is looked at, but for two logarithms, which come after it.
_FEATURES: tuple[_Sum, ...] = (
    *({name: 1.0} for name in _SEEN),
    _POWER,
    {"gate": 1},
    {**dict.fromkeys(_WORTH, 1.0), "activation cost": -1},
    _HARM,
    {"interference": 1},
)
_LOGARITHMS: tuple[_Sum, ...] = ({**_BY_SINR_SUM, "one": TINY}, {**_HARM, "one": TINY})
#: At an end: what a worker on the air is worth, its price of being there, and its power.
_AT_END = (*_WORTH.values(), {"activation": 1.0}, _POWER)


def _matrix(rows: Iterable[str], columns: Iterable[_Sum]) -> Tensor:
    """The coefficients of each sum in a column."""
    names = list(rows)
    return torch.tensor([[terms.get(name, 0.0) for terms in columns] for name in names])


class _State(NamedTuple):
    """At an iteration's output, (2, N, L, any).

    Attributes:
        received: β p of every pair, (2, N, L, L).
        interference: 1 + Σ β p.
        columns, all_columns: without and with those that follow from the SINR.
    """

    received: Tensor
    interference: Tensor
    columns: Tensor
    all_columns: Tensor


class UnrolledGraph(nn.Module):
    """The network with the prices of a policy: CSI (N, L, L) to powers over Pmax, (N, L).

    Prices are those of each worker for as many workers as the policy was made for, else means. The
    file chooses at run time, because the number of workers is an input.
    """

    def __init__(self, policy: UnrolledPolicy) -> None:
        super().__init__()
        scenario, network = policy.scenario, policy.network
        self.workers, self.any_number = scenario.workers, policy.fixed_workers is None
        # As many dimensions as there are: starts, channels, workers, and columns or workers.
        pmax_w = scenario.pmax_w.float()
        self.pmax_w = nn.Buffer(pmax_w.expand(1, 1, 1, *pmax_w.shape or (1,)))
        self.alone_backoff = nn.Buffer(torch.tensor(ALONE))
        self.alone_power = nn.Buffer(torch.sigmoid(-self.alone_backoff))
        self.minus_waterfall = nn.Buffer(torch.tensor(-scenario.waterfall))
        draw = scenario.amplifier_inefficiency * pmax_w / scenario.static_power.float()
        tables = [self._table(policy, draw, self.workers)]
        if self.any_number:
            tables.append(self._table(policy, draw, 1))
        self.table = nn.Buffer(torch.cat(tables))
        self.is_direct = nn.Buffer(_matrix(_CONSTANTS, [{"direct": 1}])[:, 0])
        # For the second start only the best worker is on the air.
        self.all_start = nn.Buffer(torch.tensor((-torch.inf, 0.0)).reshape(2, 1, 1, 1))

        self.gated_power = nn.Buffer(torch.tensor(((-1.0, -1.0),)))
        self.logs = nn.Buffer(_matrix(_COLUMNS, (_LOG_SINR, _LOG_LOSS, _LOG_DRAWN)))
        self.products = nn.Buffer(_matrix((*_COLUMNS, *_LINK), _PRODUCTS.values()))
        self.logarithms = nn.Buffer(_matrix(_LOOKED_AT, _LOGARITHMS))
        self.at_end = nn.Buffer(
            _matrix((*_COLUMNS, *_LINK), [_plus(terms, _GATE) for terms in _AT_END])
        )
        self.hard = nn.Buffer(torch.tensor((1.0, _HARD)))
        value = torch.tensor((1.0, 1.0, 1.0, -1.0, 0.0))
        self.first_is_better = nn.Buffer(torch.stack((value, -AS_GOOD * value))[:, None, None])
        self._fold(network)

    def _table(self, policy: UnrolledPolicy, draw: Tensor, workers: int) -> Tensor:
        """Constants of every worker, and what it takes to find the best alone, (workers, any)."""
        scenario = policy.scenario
        prices = policy.prices(torch.ones(1, workers, workers)).to(torch.float32)
        prices.check_usual(policy.name)
        static = scenario.static_power.float()
        unit = price_unit(prices, static)
        usual = (prices.success, prices.rate, prices.efficiency / static, prices.activation_cost)
        values = torch.stack([(price / unit).expand(workers) for price in usual], dim=-1)
        ones = torch.ones(workers, 1)
        drawn = draw[..., None] * ones
        success, rate, efficiency, activation = values.split(1, dim=-1)
        constants = {
            "direct": 0 * ones,
            "draw": drawn.log(),
            "waterfall": math.log(scenario.waterfall) * ones,
            "activation cost": activation,
            "one": ones,
            **dict(zip(_PRICES, values.clamp_min(_NO_PRICE).log().split(1, dim=-1), strict=True)),
        }
        for name, price in zip(_PRICES, values.split(1, dim=-1), strict=True):
            constants[f"~{name}"] = (price + SMALL).log()
        at_rate = rate + efficiency / (1 + drawn * self.alone_power)
        alone = (success, activation, at_rate)
        return torch.cat((*(constants[name] for name in _CONSTANTS), *alone), dim=-1)

    def _fold(self, network: UnrolledNetwork) -> None:
        """Take over the weights, for what is looked at instead of the network's features."""
        features = _matrix(_LOOKED_AT, _FEATURES)
        # Here minus the logit of the gate, whose softplus is "closing".
        outputs = torch.tensor((1.0, -1.0))

        def looking(weight: Tensor) -> Tensor:
            linear, logarithms = weight.split((len(_FEATURES), len(_LOGARITHMS)), dim=-1)
            return torch.cat((features @ linear.mT, logarithms.mT))

        with torch.no_grad():
            embed = cast("nn.Linear", network.embed[0])
            self.embed = nn.Buffer(looking(embed.weight))
            self.embed[_LOOKED_AT.index("one")] += embed.bias
            self.origin = network.origin
            self.start = nn.Buffer(network.start.weight.mT * outputs)
            self.start_bias = nn.Buffer(network.start.bias * outputs)
            self.steps = nn.ModuleList()
            for step in cast("list[UnrolledStep]", list(network.steps)):
                remembered, seen = step.look.weight.split(
                    (3 * WIDTH, len(_FEATURES) + len(_LOGARITHMS)), dim=-1
                )
                look = torch.cat((remembered.mT, looking(seen)))
                self.steps.append(_Step(step, look, step.read.weight.mT * outputs))

    def forward(self, csi: Tensor) -> Tensor:
        """Powers over Pmax, (N, L, L) to (N, L)."""
        received = (csi * self.pmax_w).clamp(LEAST_GAIN, 1 / LEAST_GAIN)
        workers = torch.arange(csi.shape[-1], device=csi.device)
        table: Tensor = self.table
        if self.any_number:
            known = torch.scalar_tensor(csi.shape[-1], dtype=torch.int64) == self.workers
            table = nn.functional.embedding(torch.where(known, workers, self.workers), table)
        constants, *alone = table.split((len(_CONSTANTS), 1, 1, len(ALONE)), dim=-1)
        # A product: ONNX Runtime takes twice as long to choose by "where".
        own = received * (workers[:, None] == workers).to(received)
        cross = received - own
        direct = own.sum(-1, keepdim=True)
        log_direct = direct.log()
        constants = log_direct * self.is_direct + constants
        constants = torch.cat((constants, constants))

        output = self._starts(direct, log_direct, *alone)
        seen, _ = self._looked_at(constants, cross, output)
        memory = nn.functional.silu(torch.cat(seen, dim=-1) @ self.embed) + self.origin
        output = output + (memory @ self.start + self.start_bias)
        for step in self.steps:
            seen, share = self._looked_at(constants, cross, output)
            memory, change = step(memory, seen, share)
            output = output + change
        return self._better_end(constants, cross, output)

    def _starts(
        self, direct: Tensor, log_direct: Tensor, success: Tensor, activation: Tensor, rate: Tensor
    ) -> Tensor:
        """All received alike, and one alone, see the network; (2, N, L, 2)."""
        alike = log_direct - log_direct.amin(-2, keepdim=True)
        sinr = direct * self.alone_power
        arrives = torch.exp(self.minus_waterfall / sinr)
        value = success * arrives + rate * sinr.log1p() - activation
        best = value.amax(-1, keepdim=True)
        alone = nn.functional.embedding(value.argmax(-1), self.alone_backoff[:, None])
        backoff = torch.cat((alike, alone))
        on_air = best >= best.amax(-2, keepdim=True) + self.all_start
        closing = torch.where(on_air, -OPEN, OPEN)
        return torch.cat((backoff, closing), dim=-1)

    def _state(self, constants: Tensor, cross: Tensor, output: Tensor) -> _State:
        """For the back-offs and minus the logits of the gates, (2, N, L, 2)."""
        minus_logs = nn.functional.softplus(output)
        received = cross * torch.exp(self.gated_power @ minus_logs.mT)
        interference = 1 + received.sum(-1, keepdim=True)
        columns = torch.cat((constants, minus_logs, interference.log()), dim=-1)
        logs = (columns @ self.logs).clamp(-_MOST, _MOST)
        of_one_more = nn.functional.softplus(logs)
        link = (of_one_more, of_one_more.log(), logs.exp())
        return _State(received, interference, columns, torch.cat((columns, *link), dim=-1))

    def _looked_at(
        self, constants: Tensor, cross: Tensor, output: Tensor
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """What the layers are folded for, in two parts, (2, N, L, any), and interference shares."""
        state = self._state(constants, cross, output)
        share = state.received / state.interference
        products = (state.all_columns @ self.products).exp()
        linear = torch.cat((state.columns, products, share.mT @ products), dim=-1)
        return (linear, (linear @ self.logarithms).log()), share

    def _better_end(self, constants: Tensor, cross: Tensor, output: Tensor) -> Tensor:
        """Powers over Pmax of the end with the larger Lagrangian, gates 0 or 1, (N, L)."""
        columns = self._state(constants, cross, output * self.hard).all_columns
        found = (columns @ self.at_end).exp()
        margin = (found * self.first_is_better).sum((0, 2, 3), keepdim=True)
        first, second = found.split(1)
        better: Tensor = torch.where(margin >= 0, first, second)
        return better[0, ..., -1]


class _Step(nn.Module):
    """An iteration's network, its first layer folded; (2, N, L, any)."""

    def __init__(self, step: UnrolledStep, look: Tensor, read: Tensor) -> None:
        super().__init__()
        self.look, self.read = nn.Buffer(look), nn.Buffer(read)
        self.look_at_all, self.conclude, self.norm = step.look_at_all, step.conclude, step.norm

    def forward(
        self, memory: Tensor, seen: tuple[Tensor, Tensor], share: Tensor
    ) -> tuple[Tensor, Tensor]:
        looked_at = torch.cat((memory, share @ memory, share.mT @ memory, *seen), dim=-1)
        hidden = looked_at @ self.look + self.look_at_all(memory.mean(-2, keepdim=True))
        memory = self.norm(memory + self.conclude(nn.functional.silu(hidden)))
        return memory, memory @ self.read
