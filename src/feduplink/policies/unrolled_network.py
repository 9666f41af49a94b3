"""A graph network that maximises the Lagrangian of a channel at any prices.

Trained once, for all settings (``learning.amortised``): channel, weights, Pmax and prices are its
inputs. Packet success, rate and energy efficiency are what it knows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from feduplink import link
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.randomness import stream_seed

WIDTH = 64
ITERATIONS = 4
_NODE_FEATURES = 17
_TINY = 1e-6
#: Channels computed at once: small enough to stay in the processor's cache, twice as fast.
_CHUNK = 1024


class UnrolledNetwork(nn.Module):
    """A few learned ascent steps on the Lagrangian of a channel, for any number of workers.

    Every iteration computes, from the current powers, what an optimiser would look at: each
    worker's SINR, what more power would bring it and cost the others, what it is worth on the air.
    A network shared by all workers turns that, its memory, and the memories of those that
    disturb it and that it disturbs, into the next powers and into whether to be on the air.
    Permutation equivariant; all inputs are logarithms relative to the noise and to the prices, so
    that nothing depends on units.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(_NODE_FEATURES, WIDTH), nn.SiLU())
        self.start = nn.Linear(WIDTH, 2)
        self.steps = nn.ModuleList(_Step() for _ in range(ITERATIONS))

    @classmethod
    def initialised(cls, seed: int = 0) -> UnrolledNetwork:
        """A network with random weights from the seed's model stream."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model"))
            return cls()

    @torch.no_grad()
    def powers(self, batch: ChannelBatch, prices: Prices) -> Tensor:
        """Powers of the last iteration, (N, L) W; 0 for a worker whose gate is closed."""
        prices.check_usual("pdx")
        single = prices.to(torch.float32)
        found = []
        for start in range(0, len(batch.direct), _CHUNK):
            part = batch.take(slice(start, start + _CHUNK))
            log_power, gate = self(part.to(torch.float32), single)[-1]
            found.append(torch.where(gate > 0, batch.pmax_w * log_power.exp(), 0.0))
        return torch.cat(found).to(batch.direct.dtype)

    def forward(self, batch: ChannelBatch, prices: Prices) -> list[tuple[Tensor, Tensor]]:
        """(log-power relative to Pmax, gate logit) after the start and after every iteration.

        Each (N, L), for a batch of (N, L) and (N, L, L) gains in float32 and prices (N, L) or
        (L,).
        """
        situation = _Situation(batch, prices)
        nothing = torch.zeros_like(batch.direct)
        level = situation.log_direct.min(-1, keepdim=True).values - situation.log_direct
        features = situation.features(level, nothing + 3.0)[0]
        memory = self.embed(features)
        raw, gate = self.start(memory).unbind(-1)
        raw = raw + level
        outputs = [(nn.functional.logsigmoid(raw), gate + 3.0)]
        for step in self.steps:
            memory, change = step(memory, *situation.features(*outputs[-1]))
            raw, gate = raw + change[..., 0], gate + change[..., 1]
            outputs.append((nn.functional.logsigmoid(raw), gate + 3.0))
        return outputs


class _Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Sequential(
            nn.Linear(4 * WIDTH + _NODE_FEATURES, 2 * WIDTH),
            nn.SiLU(),
            nn.Linear(2 * WIDTH, WIDTH),
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.read = nn.Linear(WIDTH, 2)

    def forward(self, memory: Tensor, features: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        disturbed_by = share @ memory
        disturbs = share.mT @ memory
        everyone = memory.mean(-2, keepdim=True).expand_as(memory)
        seen = torch.cat((memory, disturbed_by, disturbs, everyone, features), dim=-1)
        memory = self.norm(memory + self.mix(seen))
        return memory, self.read(memory)


class _Situation:
    """What there is to see of a channel at given powers; powers relative to Pmax."""

    def __init__(self, batch: ChannelBatch, prices: Prices) -> None:
        self.gain = batch.direct * batch.pmax_w
        self.cross = batch.cross * batch.pmax_w
        self.log_direct = self.gain.log()
        self.waterfall = batch.waterfall
        self.draw = batch.amplifier_inefficiency * batch.pmax_w / batch.static_power_w
        unit = (prices.success + prices.rate + prices.efficiency / batch.static_power_w).mean(
            -1, keepdim=True
        )
        shape = batch.direct.shape
        self.success = (prices.success / unit).expand(shape)
        self.rate = (prices.rate / unit).expand(shape)
        self.efficiency = (prices.efficiency / batch.static_power_w / unit).expand(shape)
        self.activation_cost = (prices.activation_cost / unit).expand(shape)

    def values(self, log_power: Tensor, gate: Tensor) -> tuple[Tensor, ...]:
        """Per-worker value on the air, its slopes, shares, ln SINR at soft gates."""
        power = log_power.exp()
        sent = power * gate
        interference = 1 + (self.cross @ sent[..., None])[..., 0]
        s = self.log_direct + log_power - interference.log()
        success, success_s, _ = link.success_at(s.clamp(-30, 30), self.waterfall, self.success)
        # In units of the static power, so that EE = R / (1 + μ p / P_c).
        q, q_t, _ = link.inverse_draw(power, 1.0, self.draw)
        rate, rate_s, _ = link.rate_at(s, self.rate + self.efficiency * q)
        value = success + rate - self.activation_cost
        value_s = success_s + rate_s
        value_t = -self.efficiency * link.rate_from_log(s) * q_t
        share = self.cross * sent[..., None, :] / interference[..., None]
        return value, value_s, value_t, share, s, interference

    def features(self, log_power: Tensor, gate_logit: Tensor) -> tuple[Tensor, Tensor]:
        """Node features (N, L, F) and the interference shares (N, L, L)."""
        gate = torch.sigmoid(gate_logit)
        value, value_s, value_t, share, s, interference = self.values(log_power, gate)
        harm = (share.mT @ (gate * value_s)[..., None])[..., 0] + value_t
        columns = (
            self.log_direct / 5,
            log_power / 5,
            s / 3,
            interference.log() / 3,
            gate,
            (self.success + 1e-3).log(),
            (self.rate + 1e-3).log() / 3,
            (self.efficiency + 1e-3).log() / 3,
            (self.activation_cost + 1e-3).log() / 3,
            (value_s + _TINY).log() / 3,
            (harm + _TINY).log() / 3,
            ((value_s + _TINY) / (harm + _TINY)).log() / 3,
            value,
            (value - harm) * 3,
            (self.draw.log() / 5).expand_as(s),
            torch.full_like(s, math.log(self.waterfall / 0.023)),
            gate * (value > 0),
        )
        return torch.stack(columns, dim=-1), share


def lagrangian_at_gates(
    batch: ChannelBatch, prices: Prices, output: tuple[Tensor, Tensor]
) -> Tensor:
    """The Lagrangian when a worker is on the air to the degree of its gate, (N,).

    The mean over the workers, in units of the mean price, so that cells of all sizes count
    alike. Linear in each gate given the others, so its maximum has gates of 0 or 1.
    """
    log_power, gate_logit = output
    gate = torch.sigmoid(gate_logit)
    value, *_ = _Situation(batch, prices).values(log_power, gate)
    return (gate * value).mean(-1)
