"""A graph network that maximises the Lagrangian of a channel at any prices.

It is trained once for all settings (:mod:`feduplink.training.unrolled`), with the channel, the
weights, Pmax and the prices as inputs, for packet success, rate and energy efficiency.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from feduplink import link
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.randomness import stream_seed

WIDTH = 48
ITERATIONS = 5
#: Where the iterations start: all workers on the air, or the one that is worth most alone.
STARTS = 2
#: Sizes of what there is to see of a worker: of what stays, and of what changes with the powers.
_CONSTANTS = (5.0, 1.0, 3.0, 3.0, 3.0, 5.0, 3.0)
_FEATURES = (5.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0)
#: Added before logarithms: to prices, and to slopes.
SMALL, TINY = 1e-3, 1e-6
#: Logit of the gates before the first iteration: nearly open; minus that, nearly closed.
OPEN = 3.0
#: Back-offs at which a worker alone is looked at: about 1, 1e-1, 1e-2 and 1e-3 of Pmax.
ALONE = (-3.0, 2.2, 4.6, 6.9)
#: The share of the second end's Lagrangian that the first needs to be taken. Often both starts lead
#: to the same maximum; which end is a little nearer to it is a matter of rounding.
AS_GOOD = 1 - 1e-3
#: Gains times Pmax end here, and at its inverse: beyond, a link is as good as none, or perfect, and
#: float32 has no room for what is computed from them.
LEAST_GAIN = 1e-30
#: Workers of all channels that are computed at once: few enough to stay in the processor's cache.
_CHUNK = 2048


class UnrolledNetwork(nn.Module):
    """A few learned ascent steps on the Lagrangian of a channel, for any number of workers.

    Every iteration computes, from the current powers, what an optimiser would look at: each
    worker's interference, what more power would bring it and cost the others, what it is worth on
    the air. A network shared by all workers turns that, its memory, and the memories of those that
    disturb it and that it disturbs, into the next powers and into whether to be on the air.
    Permutation equivariant; all inputs are logarithms relative to the noise and to the prices, so
    that nothing depends on units.

    The Lagrangian has maxima of two kinds, many workers that are just heard and few with a high
    rate, and steps from one do not lead to the other. So there are two starts, and the better end
    is taken.
    """

    alone_backoff: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("alone_backoff", torch.tensor(ALONE), persistent=False)
        self.embed = nn.Sequential(_looking(0, WIDTH), nn.SiLU())
        self.origin = nn.Parameter(torch.zeros(STARTS, 1, 1, WIDTH))
        self.start = nn.Linear(WIDTH, 2)
        self.steps = nn.ModuleList(UnrolledStep() for _ in range(ITERATIONS))

    @classmethod
    def initialised(cls, seed: int = 0) -> UnrolledNetwork:
        """A network with random weights from the seed's model stream."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model"))
            return cls()

    def powers(self, batch: ChannelBatch, prices: Prices) -> Tensor:
        """The powers that the better start leads to, (N, L) W; 0 for a silent worker."""
        prices.check_usual("pdx")
        single = prices.to(torch.float32)
        channels = max(1, _CHUNK // batch.direct.shape[-1])
        found = []
        for start in range(0, len(batch.direct), channels):
            part = batch.take(slice(start, start + channels))
            found.append(batch.pmax_w * self.relative_power(part.to(torch.float32), single))
        return torch.cat(found).to(batch.direct.dtype)

    def relative_power(self, batch: ChannelBatch, prices: Prices) -> Tensor:
        """As :meth:`powers`, over Pmax and in float32, for a batch and prices in float32."""
        return ChannelFeatures(batch, prices).better_end(self(batch, prices)[-1])

    def forward(self, batch: ChannelBatch, prices: Prices) -> list[Tensor]:
        """Back-off from Pmax and logit of the gate after the start and after every iteration.

        A back-off of u is a power of Pmax / (1 + e^u). Each (STARTS, N, L, 2), for a batch of
        (N, L) and (N, L, L) gains in float32 and prices (N, L) or (L,).
        """
        channel = ChannelFeatures(batch, prices)
        start = channel.starts(self.alone_backoff)
        constants = channel.constants().expand(STARTS, -1, -1, -1)
        seen = torch.cat((constants, channel.features(start)[0]), dim=-1)
        memory = self.embed(seen) + self.origin
        outputs = [start + self.start(memory)]
        for step in self.steps:
            features, share = channel.features(outputs[-1])
            memory, change = step(memory, constants, features, share)
            outputs.append(outputs[-1] + change)
        return outputs


class UnrolledStep(nn.Module):
    """The network of one iteration, shared by all workers."""

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
        """The new memory, (..., N, L, WIDTH), and the change of the output, (..., N, L, 2)."""
        disturbed_by, disturbs = share @ memory, share.mT @ memory
        seen = torch.cat((memory, disturbed_by, disturbs, constants, features), dim=-1)
        # In place: new memory for large sums takes as long as adding.
        hidden = self.look(seen)
        hidden += self.look_at_all(memory.mean(-2, keepdim=True))
        conclusion = self.conclude(nn.functional.silu(hidden))
        conclusion += memory
        memory = self.norm(conclusion)
        return memory, self.read(memory)


def _looking(remembered: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """From what is remembered, of size one, and what there is to see; begins as if all were."""
    seen = torch.tensor(_CONSTANTS + _FEATURES)
    linear = nn.Linear(remembered + len(seen), outputs, bias=bias)
    with torch.no_grad():
        linear.weight[:, remembered:] /= seen
    return linear


class ChannelFeatures:
    """Features of a batch of channels at given powers; powers relative to Pmax.

    Whatever every worker has one of is a column, (N, L, 1), ready to be multiplied and joined.
    """

    def __init__(self, batch: ChannelBatch, prices: Prices) -> None:
        static = batch.static_power_w
        direct = (batch.direct * batch.pmax_w)[..., None]
        self.direct = direct.clamp(LEAST_GAIN, 1 / LEAST_GAIN)
        self.log_direct = self.direct.log()
        self.cross = (batch.cross * batch.pmax_w).clamp(max=1 / LEAST_GAIN)
        self.waterfall = batch.waterfall
        self.draw = (batch.amplifier_inefficiency * batch.pmax_w / static)[..., None]
        unit = price_unit(prices, static)[..., None]
        self.success = (prices.success / unit)[..., None]
        self.rate = (prices.rate / unit)[..., None]
        self.efficiency = (prices.efficiency / static / unit)[..., None]
        self.activation_cost = (prices.activation_cost / unit)[..., None]

    def constants(self) -> Tensor:
        """What no iteration changes, (N, L, C)."""
        prices = (self.success, self.rate, self.efficiency, self.activation_cost)
        columns = (
            self.log_direct,
            *((price + SMALL).log() for price in prices),
            self.draw.log(),
            torch.as_tensor(self.waterfall).to(self.draw).log(),
        )
        return torch.cat([column.expand_as(self.direct) for column in columns], dim=-1)

    def starts(self, alone_backoff: Tensor) -> Tensor:
        """All received alike, as strongly as the weakest at Pmax, and one alone.

        As the output of an iteration, (STARTS, N, L, 2). The one is worth most without the others,
        at the best of the powers of ``alone_backoff``; theirs are the best of them, too.
        """
        alike = self.log_direct - self.log_direct.amin(-2, keepdim=True)
        power = torch.sigmoid(-alone_backoff)
        value = self.worth(self.direct * power, power).value
        best = value.amax(-1, keepdim=True)
        # No numbers in where: it would copy them to the device, which cannot be recorded.
        others = alone_backoff.expand_as(value).masked_fill(value != best, torch.inf)
        alone = others.amin(-1, keepdim=True)
        gate = 2 * OPEN * (best == best.amax(-2, keepdim=True)).to(best) - OPEN
        everyone = torch.cat((alike, torch.full_like(alike, OPEN)), dim=-1)
        return torch.stack((everyone, torch.cat((alone, gate), dim=-1)))

    def worth(self, sinr: Tensor, power: Tensor) -> UtilityTerms:
        """What workers on the air contribute at these SINRs and powers, (..., L, any)."""
        success, success_s = link.packet_success_with_slope(sinr, self.waterfall)
        rate, rate_s = link.rate_with_slope(sinr)
        # In units of the static power, so that EE = R q with q = 1 / (1 + μ p / P_c), and the
        # derivative of q in ln p is −q times the share of sending in the power that is drawn.
        drawn = self.draw * power
        q = 1 / (1 + drawn)
        by_rate = self.efficiency * q
        price = self.rate + by_rate
        return UtilityTerms(
            value=self.success * success + price * rate - self.activation_cost,
            by_sinr=self.success * success_s + price * rate_s,
            draw_cost=by_rate * rate * (drawn * q),
        )

    def at(self, log_power: Tensor, gate: Tensor) -> _State:
        """With workers on the air to the degree of their gates, (..., N, L, 1) each."""
        power = log_power.exp()
        # Not link.interference: the received powers, of which it is the sum, are needed one by one.
        received = self.cross * (power * gate).mT
        interference = 1 + received.sum(-1, keepdim=True)
        return _State(
            interference=interference,
            share=received / interference,
            worth=self.worth(self.direct * power / interference, power),
        )

    def features(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """What an iteration sees of each worker, (..., N, L, F), and the interference shares."""
        log_power, gate = _power_and_gate(output)
        at = self.at(log_power, gate)
        value, by_sinr, draw_cost = at.worth
        harm = at.share.mT @ (gate * by_sinr) + draw_cost
        logarithms = (torch.cat((at.interference, by_sinr, harm), dim=-1) + TINY).log()
        return torch.cat((log_power, gate, value, harm, logarithms), dim=-1), at.share

    def lagrangian_at_gates(self, output: Tensor) -> Tensor:
        """The Lagrangian when a worker is on the air to the degree of its gate, (..., N).

        The mean over the workers, in units of the mean price, so that cells of all sizes count
        alike. Linear in each gate given the others, so its maximum has gates of 0 or 1. For an
        iteration's output, (..., N, L, 2).
        """
        log_power, gate = _power_and_gate(output)
        return (gate * self.at(log_power, gate).worth.value).mean((-2, -1))

    def better_end(self, output: Tensor) -> Tensor:
        """Powers over Pmax that the start with the larger Lagrangian has led to, (N, L).

        Gates are 0 or 1, and a silent worker has power 0. Where the starts are as good as equal,
        the first is taken. For the last iteration's output, (STARTS, N, L, 2).
        """
        log_power, gate = _power_and_gate(output)
        on_air = (gate > 0.5).to(gate)
        reached = (on_air * self.at(log_power, on_air).worth.value).sum((-2, -1))
        power = (on_air * log_power.exp()).squeeze(-1)
        return torch.where((reached[0] >= AS_GOOD * reached[1])[:, None], power[0], power[1])


class UtilityTerms(NamedTuple):
    """Of every worker on the air.

    Attributes:
        value: what it contributes to the Lagrangian, in units of the mean price.
        by_sinr: derivative of the value in ln SINR.
        draw_cost: what it loses per unit of ln p by the power it draws.
    """

    value: Tensor
    by_sinr: Tensor
    draw_cost: Tensor


class _State(NamedTuple):
    """Of every worker, (..., N, L, 1), and how strongly they disturb each other.

    Attributes:
        interference: 1 + Σ β p.
        share: of worker j in the noise and interference of worker i, (..., N, L, L).
        worth: what each contributes.
    """

    interference: Tensor
    share: Tensor
    worth: UtilityTerms


def _power_and_gate(output: Tensor) -> tuple[Tensor, Tensor]:
    """The logarithm of the power over Pmax and the gate, (..., 1) each, of outputs (..., 2)."""
    backoff, gate_logit = torch.split(output, 1, dim=-1)
    return -nn.functional.softplus(backoff), torch.sigmoid(gate_logit)


def price_unit(prices: Prices, static_power_w: Tensor) -> Tensor:
    """The mean over the workers of all prices, efficiencies in units of 1 / P_c; (N,) or ()."""
    return (prices.success + prices.rate + prices.efficiency / static_power_w).mean(-1)
