"""A graph network that proposes the phases of a round, for any channel, price and workers.

There is a phase for every worker, in which it is sure to send; the network decides who sends beside
it, and all powers. A linear program over these phases, and over everyone alone, gives their
durations, and what each worker's bits cost: with these prices the network looks again at its phases
and improves them, as column generation does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from feduplink import link
from feduplink.lagrangian import ChannelBatch
from feduplink.link import Schedule
from feduplink.randomness import stream_seed
from feduplink.schedule.master_program import MasterProgram
from feduplink.schedule.mixture import mixed_schedule

WIDTH = 32
#: The linear program is solved so often, and the phases are improved so often before it is.
STAGES = 2
STEPS = 3
#: Sizes of what there is to see of a worker in a phase.
_SIZES = (5.0, 5.0, 5.0, 5.0, 1.0, 3.0, 3.0, 3.0, 5.0, 3.0, 1.0, 3.0, 3.0, 1.0, 1.0, 0.5)
_SMALL, _TINY, _LARGE = 1e-3, 1e-6, 3.0
#: Lowest power on the air, relative to Pmax.
_LOWEST = 1e-6


class PhaseNetwork(nn.Module):
    """A few learned ascent steps on the Lagrangians of a round's phases.

    Every step sees, of every worker in every phase, its SINR, what more power would bring it and
    cost the others, and what the phase is worth; it remembers what it saw, and hears of those that
    disturb it, of those that it disturbs, of the whole phase, and of itself in the other phases.
    Permutation equivariant; all inputs are logarithms relative to the noise and to the costs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(len(_SIZES), WIDTH)
        self.stages = nn.ModuleList(
            nn.ModuleList(_Step() for _ in range(STEPS)) for _ in range(STAGES)
        )
        self.start = nn.Linear(WIDTH, 2)

    @classmethod
    def initialised(cls, seed: int = 0) -> PhaseNetwork:
        """A network with random weights from the seed's model stream."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model"))
            return cls()


class _Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Linear(3 * WIDTH + len(_SIZES), 2 * WIDTH, bias=False)
        self.look_at_phase = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.look_at_worker = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.conclude = nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.read = nn.Linear(WIDTH, 2, bias=False)

    def forward(self, memory: Tensor, features: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Memories (N, K, L, W), features (N, K, L, F), shares (N, K, L, L)."""
        seen = torch.cat((memory, share @ memory, share.mT @ memory, features), dim=-1)
        seen = (
            self.look(seen)
            + self.look_at_phase(memory.mean(-2, keepdim=True))
            + self.look_at_worker(memory.mean(-3, keepdim=True))
        )
        memory = self.norm(memory + self.conclude(nn.functional.silu(seen)))
        return memory, self.read(memory)


@dataclass(frozen=True)
class Phases:
    """Phases that can be mixed, with their rates and costs.

    Attributes:
        power: (N, K, L) W.
        rates: what a second delivers, (N, K, L) nats/Hz.
        cost: what it costs, (N, K) s.
    """

    power: Tensor
    rates: Tensor
    cost: Tensor


class PhaseProposal:
    """The phases that a network proposes for N rounds, stage by stage.

    Args:
        batch: the channels, in float32 or float64.
        demand: w, (N, L) nats/Hz; 0 for who does not take part.
        seconds_per_joule: κ, (N,).
        rewards: λ, what it costs to leave a worker out, (N, L) s; None: nobody is.
    """

    def __init__(
        self,
        batch: ChannelBatch,
        demand: Tensor,
        seconds_per_joule: Tensor,
        rewards: Tensor | None = None,
    ) -> None:
        self.batch, self.demand = batch, demand
        self.kappa = seconds_per_joule[:, None, None]
        self.takes_part = (demand > 0)[:, None]
        count, workers = demand.shape
        self.anchor = torch.eye(workers, device=demand.device).to(demand)
        alone = Phases(*(torch.stack(parts, 1) for parts in zip(*self._alone(), strict=True)))
        surplus = -self.anchor.expand(count, -1, -1)
        left_out = torch.full_like(demand, 1e30) if rewards is None else rewards.to(demand)
        nobody = torch.zeros(count, 2 * workers, workers).to(demand)
        self.power = torch.cat((nobody, alone.power.flatten(1, 2)), 1).double()
        index = torch.arange(workers, device=demand.device)
        basis = torch.where(demand > 0, index + 2 * workers, index)
        self.master = MasterProgram(
            torch.cat((surplus, torch.diag_embed(demand), alone.rates.flatten(1, 2)), 1).double(),
            torch.cat((torch.zeros_like(demand), left_out, alone.cost.flatten(1, 2)), 1).double(),
            demand.double(),
            basis,
        )
        self.master.solve()

    def run(self, network: PhaseNetwork) -> list[Phases]:
        """Let the network propose, and solve after every stage; the phases of each, in order."""
        relative = self.batch.direct * self.batch.pmax_w
        level = (relative.amin(-1, keepdim=True) / relative).log()[:, None]
        log_power = (level * (1 - self.anchor)).clamp_min(-6.0)
        logits = torch.stack((log_power, torch.zeros_like(log_power)), -1)
        features, share = self._features(logits)
        memory = nn.functional.silu(network.embed(features))
        logits = logits + network.start(memory)
        proposed = []
        for stage in network.stages:
            for step in stage:  # type: ignore[attr-defined]
                features, share = self._features(logits)
                memory, change = step(memory, features, share)
                logits = logits + change
            power, on_air = self._powers(logits)
            phases = self._phases(power, on_air)
            self._add(phases)
            proposed.append(phases)
        return proposed

    @property
    def phases(self) -> Tensor:
        """Powers of the phases in the basis, (N, L, L) W, float64."""
        workers = self.demand.shape[-1]
        return self.power.gather(1, self.master.basis[..., None].expand(-1, -1, workers))

    @property
    def shares(self) -> Tensor:
        """What share of its model each worker sends in the best mixture, (N, L)."""
        workers = self.demand.shape[-1]
        durations = torch.zeros_like(self.master.cost)
        durations.scatter_(1, self.master.basis, self.master.durations)
        return 1 - durations[:, workers : 2 * workers].clamp(0.0, 1.0)

    def add_powers(self, power: Tensor) -> None:
        """Further phases, (N, M, L) W, that may be mixed."""
        self._add(self._phases(power, (power > 0).to(power)))

    def schedule(self, batch: ChannelBatch, demand: Tensor) -> Schedule:
        """The best mixture; in ``batch`` and ``demand`` all digits of the channels count."""
        return mixed_schedule(batch, self.phases, self.master.durations, demand)

    def _add(self, phases: Phases) -> None:
        self.power = torch.cat((self.power, phases.power.detach().double()), 1)
        self.master.add(phases.rates.detach().double(), phases.cost.detach().double())
        self.master.solve()

    def _alone(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Everyone alone: at its best power, and at Pmax; powers, rates and costs."""
        batch = self.batch
        static = batch.static_power_w + 1 / self.kappa[:, 0].clamp_min(1e-9)
        best = link.most_efficient_power(batch.direct, static).to(batch.direct)
        full = batch.pmax_w.expand_as(batch.direct)
        found = []
        for level in (torch.minimum(best, full), full):
            power = torch.where(self.takes_part, torch.diag_embed(level), 0.0)
            phases = self._phases(power, (power > 0).to(power))
            found.append((phases.power, phases.rates, phases.cost))
        return found

    def _powers(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Powers (N, K, L) W, and gates that are 0 or 1 and have the slopes of soft ones."""
        relative = (_LOWEST + nn.functional.logsigmoid(logits[..., 0]).exp()).clamp_max(1.0)
        soft = torch.sigmoid(logits[..., 1])
        on_air = (soft > 0.5).to(soft)
        on_air = torch.where(self.anchor > 0, 1.0, on_air + soft - soft.detach())
        on_air = torch.where(self.takes_part, on_air, 0.0)
        return self.batch.pmax_w * relative * on_air, on_air

    def _phases(self, power: Tensor, on_air: Tensor) -> Phases:
        sinr = self.batch.direct[:, None] * power / (1 + power @ self.batch.cross.mT)
        drawn = power + on_air * self.batch.static_power_w
        return Phases(power, link.rate(sinr), 1 + self.kappa[..., 0] * drawn.sum(-1))

    def _features(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """What a step sees of every worker in every phase, and the interference shares."""
        batch, kappa = self.batch, self.kappa
        power, on_air = self._powers(logits)
        relative = nn.functional.logsigmoid(logits[..., 0])
        interference = 1 + power @ batch.cross.mT
        would = batch.pmax_w * relative.exp()
        sinr = batch.direct[:, None] * would / interference
        rate, slope = link.rate_with_slope(sinr)
        price = self.master.multipliers.to(power).clamp_min(0.0)[:, None]
        by_sinr = price * slope
        pulled = on_air * by_sinr / interference
        harm = would * (pulled @ batch.cross + kappa)
        share = batch.cross[:, None] * power[..., None, :] / interference[..., None]
        value = price * rate - kappa * (would + batch.static_power_w)
        excess = (on_air * value).sum(-1, keepdim=True) - 1
        gain = (batch.direct * batch.pmax_w).log()
        towards = (batch.cross * batch.pmax_w + _TINY).log()
        columns = (
            gain[:, None],
            gain[:, :, None],
            towards,
            towards.mT,
            self.anchor,
            (price * self.demand[:, None].clamp_min(_TINY)).clamp_min(_SMALL).log(),
            (price + _SMALL).log(),
            (kappa * batch.static_power_w + _SMALL).log(),
            relative,
            interference.log(),
            on_air,
            (by_sinr + _TINY).log(),
            (harm + _TINY).log(),
            value.clamp(-_LARGE, _LARGE),
            harm.clamp_max(_LARGE),
            excess.clamp_max(_LARGE),
        )
        features = torch.stack([column.expand_as(power) for column in columns], -1)
        return features / features.new_tensor(_SIZES), share


def mixing_loss(proposal: PhaseProposal, proposed: list[Phases], *, unused: float = 0.02) -> Tensor:
    """A scalar with the slope of the mean ln(cost) in all that was proposed.

    By the envelope theorem the cost of the best mixture changes by Σ_k t_k (dc_k − Σ_i λ_i dR_ik).
    Phases that are not used have no slope there; ``unused`` of their reduced cost makes them worth
    using.
    """
    master = proposal.master
    price = master.multipliers.to(proposed[0].rates)[:, None]
    cost = master.value.to(price)[:, None]
    durations = torch.zeros_like(master.cost).scatter_(1, master.basis, master.durations)
    first = durations.shape[1] - sum(phases.cost.shape[1] for phases in proposed)
    loss = price.new_zeros(())
    for phases in proposed:
        count = phases.cost.shape[1]
        used = durations[:, first : first + count].to(price) / cost.clamp_min(_TINY)
        reduced = phases.cost - (price * phases.rates).sum(-1)
        weight = used + unused / count / phases.cost.detach()
        loss = loss + (weight * reduced).sum(-1).mean()
        first += count
    return loss
