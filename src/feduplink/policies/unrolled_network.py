"""A graph network that maximises the Lagrangian of a channel at any prices.

Trained once, for all settings (``learning.amortised``): channel, weights, Pmax and prices are its
inputs. Packet success, rate and energy efficiency are what it knows.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from feduplink import link
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.randomness import stream_seed

WIDTH = 64
ITERATIONS = 6
#: Sizes of what there is to see of a worker: of what stays, and of what changes with the powers.
_CONSTANTS = (5.0, 1.0, 3.0, 3.0, 3.0, 5.0, 3.0)
_FEATURES = (5.0, 3.0, 1.0, 3.0, 3.0, 1.0, 1.0, 1.0)
#: Added before logarithms: to prices, and to slopes.
_SMALL, _TINY = 1e-3, 1e-6
#: Logit of the gates before the first iteration: nearly open.
_OPEN = 3.0
#: Channels computed at once: small enough to stay in the processor's cache, twice as fast.
_CHUNK = 1024


class UnrolledNetwork(nn.Module):
    """A few learned ascent steps on the Lagrangian of a channel, for any number of workers.

    Every iteration computes, from the current powers, what an optimiser would look at: each
    worker's interference, what more power would bring it and cost the others, what it is worth on
    the air. A network shared by all workers turns that, its memory, and the memories of those that
    disturb it and that it disturbs, into the next powers and into whether to be on the air.
    Permutation equivariant; all inputs are logarithms relative to the noise and to the prices, so
    that nothing depends on units.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(_looking(0, WIDTH), nn.SiLU())
        self.start = nn.Linear(WIDTH, 2)
        self.steps = nn.ModuleList(_Step() for _ in range(ITERATIONS))

    @classmethod
    def initialised(cls, seed: int = 0) -> UnrolledNetwork:
        """A network with random weights from the seed's model stream."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model"))
            return cls()

    def powers(self, batch: ChannelBatch, prices: Prices) -> Tensor:
        """Powers of the last iteration, (N, L) W; 0 for a worker whose gate is closed."""
        prices.check_usual("pdx")
        single = prices.to(torch.float32)
        found = []
        for start in range(0, len(batch.direct), _CHUNK):
            part = batch.take(slice(start, start + _CHUNK))
            logits = self(part.to(torch.float32), single)[-1]
            found.append(batch.pmax_w * relative_power(logits))
        return torch.cat(found).to(batch.direct.dtype)

    def forward(self, batch: ChannelBatch, prices: Prices) -> list[Tensor]:
        """Logits of power over Pmax and of the gate after the start and after every iteration.

        Each (N, L, 2), for a batch of (N, L) and (N, L, L) gains in float32 and prices (N, L) or
        (L,).
        """
        situation = _Situation(batch, prices)
        constants = situation.constants()
        # As if all were received alike, as strongly as the weakest at Pmax.
        level = situation.log_direct.amin(-2, keepdim=True) - situation.log_direct
        logits = torch.cat((level, torch.full_like(level, _OPEN)), dim=-1)
        memory = self.embed(torch.cat((constants, situation.features(logits)[0]), dim=-1))
        outputs = [logits + self.start(memory)]
        for step in self.steps:
            features, share = situation.features(outputs[-1])
            memory, change = step(memory, constants, features, share)
            outputs.append(outputs[-1] + change)
        return outputs


class _Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # Neither needs a bias: that of the norm goes through both.
        self.look = _looking(3 * WIDTH, 2 * WIDTH, bias=False)
        self.look_at_all = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.conclude = nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.read = nn.Linear(WIDTH, 2, bias=False)

    def forward(
        self, memory: Tensor, constants: Tensor, features: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        disturbed_by, disturbs = share @ memory, share.mT @ memory
        seen = torch.cat((memory, disturbed_by, disturbs, constants, features), dim=-1)
        seen = self.look(seen) + self.look_at_all(memory.mean(-2, keepdim=True))
        memory = self.norm(memory + self.conclude(nn.functional.silu(seen)))
        return memory, self.read(memory)


def _looking(remembered: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """From what is remembered, of size one, and what there is to see; begins as if all were."""
    seen = torch.tensor(_CONSTANTS + _FEATURES)
    linear = nn.Linear(remembered + len(seen), outputs, bias=bias)
    with torch.no_grad():
        linear.weight[:, remembered:] /= seen
    return linear


class _Situation:
    """What there is to see of a channel at given powers; powers relative to Pmax.

    Whatever every worker has one of is a column, (N, L, 1), ready to be multiplied and joined.
    """

    def __init__(self, batch: ChannelBatch, prices: Prices) -> None:
        static = batch.static_power_w
        self.direct = (batch.direct * batch.pmax_w)[..., None]
        self.log_direct = self.direct.log()
        self.cross = batch.cross * batch.pmax_w
        self.waterfall = batch.waterfall
        self.draw = (batch.amplifier_inefficiency * batch.pmax_w / static)[..., None]
        unit = (prices.success + prices.rate + prices.efficiency / static).mean(-1, keepdim=True)
        self.success = (prices.success / unit)[..., None]
        self.rate = (prices.rate / unit)[..., None]
        self.efficiency = (prices.efficiency / static / unit)[..., None]
        self.activation_cost = (prices.activation_cost / unit)[..., None]

    def _prices(self) -> tuple[Tensor, ...]:
        return self.success, self.rate, self.efficiency, self.activation_cost

    def constants(self) -> Tensor:
        """What no iteration changes, (N, L, C)."""
        columns = (
            self.log_direct,
            *((price + _SMALL).log() for price in self._prices()),
            self.draw.log(),
            torch.as_tensor(self.waterfall).to(self.draw).log(),
        )
        return torch.cat([column.expand_as(self.direct) for column in columns], dim=-1)

    def at(self, logits: Tensor) -> _State:
        """At logits (N, L, 2), with workers on the air to the degree of their gates."""
        power_logit, gate_logit = torch.split(logits, 1, dim=-1)
        log_power, gate = nn.functional.logsigmoid(power_logit), torch.sigmoid(gate_logit)
        power = log_power.exp()
        sent = power * gate
        interference = 1 + self.cross @ sent
        sinr = self.direct * power / interference
        success, success_s = link.packet_success_with_slope(sinr, self.waterfall)
        rate, rate_s = link.rate_with_slope(sinr)
        # In units of the static power, so that EE = R q with q = 1 / (1 + μ p / P_c), and the
        # derivative of q in ln p is −q times the share of sending in the power that is drawn.
        drawn = self.draw * power
        q = 1 / (1 + drawn)
        by_rate = self.efficiency * q
        price = self.rate + by_rate
        return _State(
            log_power=log_power,
            gate=gate,
            interference=interference,
            share=self.cross * sent.mT / interference,
            value=self.success * success + price * rate - self.activation_cost,
            by_sinr=self.success * success_s + price * rate_s,
            draw_cost=by_rate * rate * (drawn * q),
        )

    def features(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """What an iteration sees of each worker, (N, L, F), and the interference shares."""
        at = self.at(logits)
        harm = at.share.mT @ (at.gate * at.by_sinr) + at.draw_cost
        columns = (
            at.log_power,
            at.interference.log(),
            at.gate,
            (at.by_sinr + _TINY).log(),
            (harm + _TINY).log(),
            at.value,
            harm,
            (at.value > 0).to(harm),
        )
        return torch.cat(columns, dim=-1), at.share


class _State(NamedTuple):
    """Of every worker, (N, L, 1), and how strongly they disturb each other.

    Attributes:
        log_power: of the power relative to Pmax, if it is on the air.
        gate: the degree to which it is.
        interference: 1 + Σ β p.
        share: of worker j in the noise and interference of worker i, (N, L, L).
        value: what it contributes to the Lagrangian on the air, in units of the mean price.
        by_sinr: derivative of the value in ln SINR.
        draw_cost: what it loses per unit of ln p by the power it draws.
    """

    log_power: Tensor
    gate: Tensor
    interference: Tensor
    share: Tensor
    value: Tensor
    by_sinr: Tensor
    draw_cost: Tensor


def relative_power(logits: Tensor) -> Tensor:
    """Power over Pmax of logits (N, L, 2), 0 for a worker whose gate is closed; (N, L)."""
    power, gate = logits.unbind(-1)
    return torch.where(gate > 0, nn.functional.logsigmoid(power).exp(), 0.0)


def lagrangian_at_gates(batch: ChannelBatch, prices: Prices, logits: Tensor) -> Tensor:
    """The Lagrangian when a worker is on the air to the degree of its gate, (N,).

    The mean over the workers, in units of the mean price, so that cells of all sizes count
    alike. Linear in each gate given the others, so its maximum has gates of 0 or 1.
    """
    at = _Situation(batch, prices).at(logits)
    return (at.gate * at.value).mean((-2, -1))
