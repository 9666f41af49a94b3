"""``pdx``: a graph network that maximises the Lagrangian of a channel at any prices.

Trained once, for all settings (``learning.amortised``): channel, weights, Pmax and multipliers are
its inputs. For a scenario only the multipliers have to be found (``optimum.calibration``).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from feduplink.channels.csi import denoised_csi
from feduplink.lagrangian import Cell, Multipliers, Prices
from feduplink.policies.base import Policy
from feduplink.randomness import stream_seed
from feduplink.scenario import Scenario

WIDTH = 64
ITERATIONS = 4
_NODE_FEATURES = 17
_TINY = 1e-6


class UnrolledPolicy(Policy):
    """The network with the multipliers of a scenario."""

    name = "pdx"

    def __init__(
        self, scenario: Scenario, network: UnrolledNetwork, multipliers: Multipliers
    ) -> None:
        super().__init__(scenario)
        self.network = network
        self.multipliers = multipliers

    def powers(self, csi: Tensor) -> Tensor:
        """What the network says, (N, L, L) to (N, L), W.

        Where the scenario says that CSI is noisy, the network sees its expectation: logarithms
        of gains that are lost in the noise would lead it astray.
        """
        cell = Cell.of(self.scenario, denoised_csi(csi, self.scenario.csi_noise))
        return self.network.powers(cell, self._prices(csi.shape[-1])).to(csi.dtype)

    def _prices(self, workers: int) -> Prices:
        """The scenario's prices; for another number of workers those of the average worker."""
        if workers == self.scenario.workers:
            return self.multipliers.prices(self.scenario)
        # Of a scenario, prices depend on these fields alone; others may be listed per worker.
        scenario = Scenario(
            workers=workers,
            objective=self.scenario.objective,
            rate_min=float(self.scenario.rate_thresholds.mean()),
            ee_min=float(self.scenario.ee_thresholds.mean()),
        )
        average = Multipliers(
            self.multipliers.constraints.mean(-1, keepdim=True).expand(-1, workers),
            self.multipliers.worth.mean(-1, keepdim=True).expand(workers),
        )
        return average.prices(scenario)

    def tensors(self) -> dict[str, Tensor]:
        """The network's weights and the multipliers."""
        weights = {f"network.{name}": w for name, w in self.network.state_dict().items()}
        multipliers = self.multipliers
        return {**weights, "constraints": multipliers.constraints, "worth": multipliers.worth}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> UnrolledPolicy:
        """A policy with these weights and multipliers."""
        network = UnrolledNetwork()
        prefix = "network."
        network.load_state_dict(
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )
        return cls(scenario, network, Multipliers(tensors["constraints"], tensors["worth"]))


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
    def powers(self, cell: Cell, prices: Prices) -> Tensor:
        """Powers of the last iteration, (N, L) W; 0 for a worker whose gate is closed."""
        log_power, gate = self(cell.to(torch.float32), prices.to(torch.float32))[-1]
        return torch.where(gate > 0, cell.pmax_w * log_power.exp(), 0.0).to(cell.direct.dtype)

    def forward(self, cell: Cell, prices: Prices) -> list[tuple[Tensor, Tensor]]:
        """(log-power relative to Pmax, gate logit) after the start and after every iteration.

        Each (N, L), for a cell of (N, L) and (N, L, L) gains in float32 and prices (N, L) or
        (L,).
        """
        situation = _Situation(cell, prices)
        nothing = torch.zeros_like(cell.direct)
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

    def __init__(self, cell: Cell, prices: Prices) -> None:
        self.gain = cell.direct * cell.pmax_w
        self.cross = cell.cross * cell.pmax_w
        self.log_direct = self.gain.log()
        self.waterfall = cell.waterfall
        self.draw = cell.amplifier_inefficiency * cell.pmax_w / cell.static_power_w
        unit = (prices.success + prices.rate + prices.efficiency / cell.static_power_w).mean(
            -1, keepdim=True
        )
        shape = cell.direct.shape
        self.success = (prices.success / unit).expand(shape)
        self.rate = (prices.rate / unit).expand(shape)
        self.efficiency = (prices.efficiency / cell.static_power_w / unit).expand(shape)
        self.fee = (prices.fee / unit).expand(shape)

    def worth(self, log_power: Tensor, gate: Tensor) -> tuple[Tensor, ...]:
        """Per-worker value on the air, its slopes, shares, ln SINR at soft gates."""
        power = log_power.exp()
        sent = power * gate
        interference = 1 + (self.cross @ sent[..., None])[..., 0]
        s = self.log_direct + log_power - interference.log()
        loss = self.waterfall * torch.exp(-s.clamp(-30, 30))
        success = torch.exp(-loss)
        rate = nn.functional.softplus(s)
        drawn = self.draw * power
        q = 1 / (1 + drawn)
        slope = self.rate + self.efficiency * q
        value = self.success * success + slope * rate - self.fee
        value_s = self.success * success * loss + slope * torch.sigmoid(s)
        value_t = self.efficiency * rate * drawn * q**2
        share = self.cross * sent[..., None, :] / interference[..., None]
        return value, value_s, value_t, share, s, interference

    def features(self, log_power: Tensor, gate_logit: Tensor) -> tuple[Tensor, Tensor]:
        """Node features (N, L, F) and the interference shares (N, L, L)."""
        gate = torch.sigmoid(gate_logit)
        value, value_s, value_t, share, s, interference = self.worth(log_power, gate)
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
            (self.fee + 1e-3).log() / 3,
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


def lagrangian_at_gates(cell: Cell, prices: Prices, output: tuple[Tensor, Tensor]) -> Tensor:
    """The Lagrangian when a worker is on the air to the degree of its gate, (N,).

    The mean over the workers, in units of the mean price, so that cells of all sizes count
    alike. Linear in each gate given the others, so its maximum has gates of 0 or 1.
    """
    log_power, gate_logit = output
    gate = torch.sigmoid(gate_logit)
    value, *_ = _Situation(cell, prices).worth(log_power, gate)
    return (gate * value).mean(-1)
