"""Unrolled graph network that maximises the Lagrangian of a channel at given prices.

Inputs are the channel, Pmax and the prices of packet success, rate and energy efficiency, so that
one network, trained by :mod:`feduplink.training.unrolled`, serves all scenarios.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from feduplink import link
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.randomness import stream_seed

#: Number of hidden features per worker.
WIDTH = 48
#: Number of unrolled iterations.
ITERATIONS = 5
#: Number of initial points: all workers active, or only the worker of highest value alone.
STARTS = 2
#: Typical magnitudes of the constant and of the power-dependent features, for initial weights.
_CONSTANT_SCALES = (5.0, 1.0, 3.0, 3.0, 3.0, 5.0, 3.0)
_FEATURE_SCALES = (5.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0)
#: Offsets in logarithms: of prices, and of slopes.
SMALL, TINY = 1e-3, 1e-6
#: Absolute value of the gate logits at an initial point: gates of 0.95 and 0.05.
OPEN = 3.0
#: Back-offs at which a single active worker is evaluated: about 1, 1e-1, 1e-2 and 1e-3 of Pmax.
ALONE = (-3.0, 2.2, 4.6, 6.9)
#: The result of the first initial point is taken if its Lagrangian is at least this fraction of
#: the second's. Both often reach the same maximum, and rounding must not decide between them.
AS_GOOD = 1 - 1e-3
#: Lower limit of gain times Pmax, and inverse of the upper limit, against overflow in float32.
LEAST_GAIN = 1e-30
#: Maximum number of workers, over all channels, per batch, so that it fits the processor's cache.
_MAX_WORKERS_PER_BATCH = 2048


class UnrolledNetwork(nn.Module):
    """Learned ascent of the Lagrangian of a channel, for any number of workers.

    Every iteration computes the interference of each worker, the slope of its value in its SINR,
    the loss that its power causes, and its value when active. A network shared by all workers maps
    these features, the worker's hidden state, and the hidden states of its interferers and of the
    workers it interferes with to changes of its power and of its on/off gate.

    The network is permutation equivariant. Its inputs are logarithms relative to the noise and to
    the mean price and therefore do not depend on units.

    The Lagrangian has local maxima with many workers of low rate and with few workers of high
    rate. The iterations therefore run from two initial points, and the better result is taken.
    """

    alone_backoff: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("alone_backoff", torch.tensor(ALONE), persistent=False)
        self.embed = nn.Sequential(_scaled_linear(0, WIDTH), nn.SiLU())
        self.origin = nn.Parameter(torch.zeros(STARTS, 1, 1, WIDTH))
        self.start = nn.Linear(WIDTH, 2)
        self.steps = nn.ModuleList(UnrolledStep() for _ in range(ITERATIONS))

    @classmethod
    def initialised(cls, seed: int = 0) -> UnrolledNetwork:
        """Make a network with random weights from the model stream of ``seed``."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model"))
            return cls()

    def powers(self, batch: ChannelBatch, prices: Prices) -> Tensor:
        """Compute the powers that maximise the Lagrangian approximately.

        Args:
            batch: N channels of L workers.
            prices: prices of packet success, rate and energy efficiency, (L,) or (N, L).

        Returns:
            Powers of the better initial point, (N, L), W; 0 for silent workers.

        Raises:
            InputError: if ``prices`` contains other measures or a price of transmit power.
        """
        prices.check_usual("pdx")
        single = prices.to(torch.float32)
        channels = max(1, _MAX_WORKERS_PER_BATCH // batch.direct.shape[-1])
        found = []
        for start in range(0, len(batch.direct), channels):
            part = batch.take(slice(start, start + channels))
            found.append(batch.pmax_w * self.relative_power(part.to(torch.float32), single))
        return torch.cat(found).to(batch.direct.dtype)

    def relative_power(self, batch: ChannelBatch, prices: Prices) -> Tensor:
        """Powers over Pmax, (N, L), for a batch and prices in float32; see :meth:`powers`."""
        return ChannelFeatures(batch, prices).better_end(self(batch, prices)[-1])

    def forward(self, batch: ChannelBatch, prices: Prices) -> list[Tensor]:
        """Run the iterations from all initial points.

        Args:
            batch: N channels of L workers, float32.
            prices: prices, (L,) or (N, L), float32.

        Returns:
            Output before the first and after every iteration, (STARTS, N, L, 2) each: the back-off
            u of the power Pmax / (1 + e^u), and the logit of the gate.
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
    """Network of one iteration, shared by all workers."""

    def __init__(self) -> None:
        super().__init__()
        # No bias is needed: the layer norm has one.
        self.look = _scaled_linear(3 * WIDTH, 2 * WIDTH, bias=False)
        self.look_at_all = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.conclude = nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.read = nn.Linear(WIDTH, 2, bias=False)

    def forward(
        self, memory: Tensor, constants: Tensor, features: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the next hidden state and the change of the output.

        Args:
            memory: hidden state, (..., N, L, WIDTH).
            constants: features independent of the powers, (..., N, L, 7).
            features: features at the current powers, (..., N, L, 7).
            share: share of worker j in the noise and interference of worker i, (..., N, L, L).

        Returns:
            Hidden state, (..., N, L, WIDTH), and change of the output, (..., N, L, 2).
        """
        interferers, victims = share @ memory, share.mT @ memory
        inputs = torch.cat((memory, interferers, victims, constants, features), dim=-1)
        # In place: allocating memory takes as long as the addition.
        hidden = self.look(inputs)
        hidden += self.look_at_all(memory.mean(-2, keepdim=True))
        conclusion = self.conclude(nn.functional.silu(hidden))
        conclusion += memory
        memory = self.norm(conclusion)
        return memory, self.read(memory)


def _scaled_linear(hidden: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """A linear layer of hidden and channel features, initialised for features of unit scale."""
    scales = torch.tensor(_CONSTANT_SCALES + _FEATURE_SCALES)
    linear = nn.Linear(hidden + len(scales), outputs, bias=bias)
    with torch.no_grad():
        linear.weight[:, hidden:] /= scales
    return linear


class ChannelFeatures:
    """Features and Lagrangian of a batch of channels at given powers and gates.

    Powers are relative to Pmax, gains are multiplied by Pmax, and prices are in units of
    :func:`price_unit`. Quantities per worker have shape (N, L, 1).

    Args:
        batch: N channels of L workers, float32.
        prices: prices, (L,) or (N, L), float32.
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
        """Features that do not depend on the powers, (N, L, 7)."""
        prices = (self.success, self.rate, self.efficiency, self.activation_cost)
        columns = (
            self.log_direct,
            *((price + SMALL).log() for price in prices),
            self.draw.log(),
            torch.as_tensor(self.waterfall).to(self.draw).log(),
        )
        return torch.cat([column.expand_as(self.direct) for column in columns], dim=-1)

    def starts(self, alone_backoff: Tensor) -> Tensor:
        """Initial points, in the form of the output of an iteration.

        At the first point, all workers are received as strongly as the weakest one at Pmax. At the
        second, only the worker with the highest value in the absence of interference is active.
        Every worker then has the power of highest value among those of ``alone_backoff``.

        Args:
            alone_backoff: back-offs to choose from, (K,).

        Returns:
            Back-offs and gate logits, (STARTS, N, L, 2).
        """
        alike = self.log_direct - self.log_direct.amin(-2, keepdim=True)
        power = torch.sigmoid(-alone_backoff)
        value = self.worth(self.direct * power, power).value
        best = value.amax(-1, keepdim=True)
        # masked_fill instead of where: a scalar in where is copied to the device, which a CUDA
        # graph cannot record.
        others = alone_backoff.expand_as(value).masked_fill(value != best, torch.inf)
        alone = others.amin(-1, keepdim=True)
        gate = 2 * OPEN * (best == best.amax(-2, keepdim=True)).to(best) - OPEN
        everyone = torch.cat((alike, torch.full_like(alike, OPEN)), dim=-1)
        return torch.stack((everyone, torch.cat((alone, gate), dim=-1)))

    def worth(self, sinr: Tensor, power: Tensor) -> UtilityTerms:
        """Contributions of active workers to the Lagrangian.

        Args:
            sinr: SINR, (..., L, K).
            power: powers relative to Pmax, broadcastable to ``sinr``.

        Returns:
            Values and derivatives, (..., L, K) each.
        """
        success, success_s = link.packet_success_with_slope(sinr, self.waterfall)
        rate, rate_s = link.rate_with_slope(sinr)
        # In units of the static power, EE = R q with q = 1 / (1 + μ p / P_c). The derivative of q
        # in ln p is −q times the share of transmission in the total power consumption.
        drawn = self.draw * power
        q = 1 / (1 + drawn)
        by_rate = self.efficiency * q
        price = self.rate + by_rate
        return UtilityTerms(
            value=self.success * success + price * rate - self.activation_cost,
            by_sinr=self.success * success_s + price * rate_s,
            draw_cost=by_rate * rate * (drawn * q),
        )

    def at(self, log_power: Tensor, gate: Tensor) -> _OperatingPoint:
        """Interference and contributions with soft on/off gates.

        Args:
            log_power: logarithm of the power over Pmax, (..., N, L, 1).
            gate: gates from 0 (silent) to 1 (active), (..., N, L, 1).
        """
        power = log_power.exp()
        # Not link.interference, because each received power is needed, not only their sum.
        received = self.cross * (power * gate).mT
        interference = 1 + received.sum(-1, keepdim=True)
        return _OperatingPoint(
            interference=interference,
            share=received / interference,
            worth=self.worth(self.direct * power / interference, power),
        )

    def features(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Features at the powers and gates of an output.

        Args:
            output: back-offs and gate logits, (..., N, L, 2).

        Returns:
            Features of each worker, (..., N, L, 7), and the share of worker j in the noise and
            interference of worker i, (..., N, L, L).
        """
        log_power, gate = _power_and_gate(output)
        point = self.at(log_power, gate)
        value, by_sinr, draw_cost = point.worth
        harm = point.share.mT @ (gate * by_sinr) + draw_cost
        logarithms = (torch.cat((point.interference, by_sinr, harm), dim=-1) + TINY).log()
        return torch.cat((log_power, gate, value, harm, logarithms), dim=-1), point.share

    def lagrangian_at_gates(self, output: Tensor) -> Tensor:
        """Lagrangian with soft on/off gates, averaged over the workers.

        The mean over workers in units of the mean price gives cells of all sizes equal weight.

        Args:
            output: back-offs and gate logits of an iteration, (..., N, L, 2).

        Returns:
            Mean Lagrangian per worker, (..., N).
        """
        log_power, gate = _power_and_gate(output)
        return (gate * self.at(log_power, gate).worth.value).mean((-2, -1))

    def better_end(self, output: Tensor) -> Tensor:
        """Powers of the initial point whose result has the larger Lagrangian.

        Gates are rounded to 0 or 1. The first initial point is preferred if both results are
        nearly equal.

        Args:
            output: back-offs and gate logits of the last iteration, (STARTS, N, L, 2).

        Returns:
            Powers relative to Pmax, (N, L); 0 for silent workers.
        """
        log_power, gate = _power_and_gate(output)
        active = (gate > 0.5).to(gate)
        lagrangian = (active * self.at(log_power, active).worth.value).sum((-2, -1))
        power = (active * log_power.exp()).squeeze(-1)
        first_is_better = lagrangian[0] >= AS_GOOD * lagrangian[1]
        return torch.where(first_is_better[:, None], power[0], power[1])


class UtilityTerms(NamedTuple):
    """Contributions of active workers to the Lagrangian, in units of :func:`price_unit`.

    Attributes:
        value: contribution, (..., L, K).
        by_sinr: derivative of the contribution in ln SINR, (..., L, K).
        draw_cost: −1 times its derivative in ln p at constant SINR, due to the power consumption,
            (..., L, K).
    """

    value: Tensor
    by_sinr: Tensor
    draw_cost: Tensor


class _OperatingPoint(NamedTuple):
    """Interference and contributions of the workers at given powers.

    Attributes:
        interference: noise and interference 1 + Σ β p, (..., N, L, 1).
        share: share of worker j in the noise and interference of worker i, (..., N, L, L).
        worth: contributions, (..., N, L, 1).
    """

    interference: Tensor
    share: Tensor
    worth: UtilityTerms


def _power_and_gate(output: Tensor) -> tuple[Tensor, Tensor]:
    """Split outputs (..., 2) into the logarithm of power over Pmax and the gate, (..., 1) each."""
    backoff, gate_logit = torch.split(output, 1, dim=-1)
    return -nn.functional.softplus(backoff), torch.sigmoid(gate_logit)


def price_unit(prices: Prices, static_power_w: Tensor) -> Tensor:
    """Mean over the workers of the sum of prices a + b + c / P_c.

    Args:
        prices: prices a, b and c of packet success, rate and efficiency, (L,) or (N, L).
        static_power_w: static power P_c, (L,), W.

    Returns:
        Unit of prices, () or (N,).
    """
    return (prices.success + prices.rate + prices.efficiency / static_power_w).mean(-1)
