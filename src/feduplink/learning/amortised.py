"""Training the network of ``pdx``: maximise the Lagrangian at random channels and prices.

No constraint appears here. The network learns the inner problem of the dual, max_p of the
Lagrangian, for any channel, weights, Pmax and multipliers; the multipliers that make the
constraints of a scenario hold are found afterwards, with the network in the loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from feduplink.channels import draw_csi
from feduplink.channels.recorded import recording_identity
from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.learning.adam_state import adam_tensors, restore_adam
from feduplink.observing import Advance, Observer, track
from feduplink.policies.unrolled_network import UnrolledNetwork, lagrangian_at_gates
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario
from feduplink.tensorfile import TensorFile, check_same, read_tensors, write_tensors
from feduplink.validated_model import ValidatedModel

#: How much each iteration's output counts in the loss, the start first.
_DEPTH_WEIGHTS = (0.1, 0.2, 0.3, 0.5, 1.0)
#: Steps between two reports and two checkpoints.
_REPORT_EVERY = 100
_CHECKPOINT = "pdx training checkpoint"


@dataclass(frozen=True)
class Curriculum:
    """What the network is trained for.

    Attributes:
        scenario: the cell, and all that is not varied.
        workers: numbers of workers, one drawn for each batch.
        pmax_dbw: range of Pmax, dBW; None takes the scenario's.
        interference: range of the interference factor.
        varied_weights: draw the worker weights too, instead of taking the scenario's.
        recorded: channels that batches are drawn from, with replacement, (N, L, L); None: those
            that the scenario's model draws.
    """

    scenario: Scenario
    workers: tuple[int, ...]
    pmax_dbw: tuple[float, float] | None
    interference: tuple[float, float]
    varied_weights: bool
    recorded: Tensor | None = None

    @classmethod
    def all_settings(cls) -> Curriculum:
        """Cells of many sizes, powers, interference and weights, as for the shipped network."""
        return cls(Scenario(), (4, 6, 8, 8, 8, 10, 12, 16, 24, 32), (-45, 5), (0.7, 10), True)

    @classmethod
    def one_scenario(cls, scenario: Scenario, recorded: Tensor | None = None) -> Curriculum:
        """One scenario, at any multipliers; with channels of its model or ``recorded`` ones."""
        level = scenario.interference
        return cls(scenario, (scenario.workers,), None, (level, level), False, recorded)

    def draw(self, count: int, generator: torch.Generator) -> tuple[ChannelBatch, Prices]:
        """A batch of channels of one cell with prices of their own, in float32."""
        device = generator.device

        def uniform(low: float, high: float, *shape: int) -> Tensor:
            unit = torch.rand(shape, generator=generator, device=device)
            return low + (high - low) * unit

        def log_uniform(low: float, high: float, *shape: int) -> Tensor:
            return uniform(math.log(low), math.log(high), *shape).exp()

        choice = int(torch.randint(len(self.workers), (), generator=generator, device=device))
        workers = self.workers[choice]
        # Drawn in any case: what is varied does not change the other random numbers.
        drawn_dbw = float(uniform(*(self.pmax_dbw or (0.0, 0.0))))
        scenario = self.scenario.replace(
            workers=workers,
            pmax_dbw=drawn_dbw if self.pmax_dbw else self.scenario.pmax_dbw,
            interference=float(log_uniform(*self.interference)),
            **({"rate_min": 0.7, "ee_min": 55.0, "weights": "data"} if self.varied_weights else {}),
        )
        csi = self._draw_csi(scenario, count, generator)
        batch = ChannelBatch.from_scenario(scenario, csi).to(torch.float32)
        if self.varied_weights:
            weights = uniform(0.1, 1.0, count, workers)
            weights = weights / weights.sum(-1, keepdim=True)
            rate_min, ee_min = log_uniform(0.1, 1.5, count, 1), log_uniform(5, 120, count, 1)
        else:
            weights = scenario.worker_weights.to(batch.direct).expand(count, -1)
            rate_min = scenario.rate_thresholds.to(batch.direct).clamp_min(1e-3)
            ee_min = scenario.ee_thresholds.to(batch.direct).clamp_min(1e-1)
        # Multipliers in units of the mean weight: none, or up to some tens of per cent, alike for
        # the workers of a channel up to a factor.
        rate_price, ee_price = (
            log_uniform(0.003, 0.4, count, 1)
            * log_uniform(0.4, 2.0, count, workers)
            * (uniform(0, 1, count, 1) < 0.6)
            * (uniform(0, 1, count, workers) < 0.9)
            * weights.mean(-1, keepdim=True)
            for _ in range(2)
        )
        return batch, Prices(
            weights, rate_price / rate_min, ee_price / ee_min, rate_price + ee_price
        )

    def _draw_csi(self, scenario: Scenario, count: int, generator: torch.Generator) -> Tensor:
        if self.recorded is None:
            return draw_csi(scenario, count, generator)
        device = generator.device
        chosen = torch.randint(len(self.recorded), (count,), generator=generator, device=device)
        return self.recorded.to(device)[chosen]


class NetworkSettings(ValidatedModel):
    """Hyperparameters of the network's training; the defaults suit one scenario on a CPU."""

    steps: int = Field(default=1500, ge=100, le=10**7, description="batches of fresh channels")
    batch_size: int = Field(default=128, ge=1, le=10**6, description="channels in a batch")
    learning_rate: float = Field(default=2e-3, gt=0, le=1, description="AdamW's largest step")


class NetworkTraining:
    """Training in place on fresh channels at every step, the rate rising once and then falling.

    Everything that the next step depends on is in the checkpoint, so that a run that is killed and
    resumed ends with the same weights as one left alone (bit for bit on a CPU).
    """

    def __init__(
        self,
        network: UnrolledNetwork,
        curriculum: Curriculum,
        settings: NetworkSettings,
        *,
        seed: int = 0,
    ) -> None:
        self.network, self.curriculum, self.settings = network, curriculum, settings
        self.step = 0
        self._seed = seed
        device = next(network.parameters()).device
        self._generator = torch_generator(seed, "train-channels", device=device)
        self._optimizer = torch.optim.AdamW(
            network.parameters(), lr=settings.learning_rate, weight_decay=1e-4, fused=True
        )
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimizer,
            max_lr=settings.learning_rate,
            total_steps=settings.steps,
            pct_start=0.05,
        )

    def run(self, observers: Sequence[Observer] = (), checkpoint: Path | None = None) -> None:
        """Take the steps that are left.

        The ``observers`` are told of the Lagrangian reached, every hundred steps; as often the
        state is written to ``checkpoint``.
        """
        earlier = [Advance(self.step)] if self.step else []
        steps = self.settings.steps
        with track("training of pdx", steps, "steps", observers, earlier=earlier) as tracker:
            while self.step < steps:
                reached = self._take_step()
                self.step += 1
                if self.step % _REPORT_EVERY == 0:
                    if checkpoint:
                        self.save(checkpoint)
                    tracker.advance(self.step, {"Lagrangian": float(reached)})

    def save(self, path: Path) -> None:
        """Write a checkpoint of the state between two steps."""
        group = self._optimizer.param_groups[0]
        tensors = {
            **{f"network.{k}": v for k, v in self.network.state_dict().items()},
            **{f"adam.{k}": v for k, v in adam_tensors(self._optimizer).items()},
            "generator": self._generator.get_state(),
        }
        state = {"step": self.step, "rate": group["lr"], "betas": list(group["betas"])}
        write_tensors(path, _CHECKPOINT, TensorFile(tensors, {**self._identity(), "state": state}))

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same curriculum, settings and seed."""
        file = read_tensors(path, _CHECKPOINT)
        check_same(path, file, self._identity())
        state = file.header["state"]
        self.step = state["step"]
        self.network.load_state_dict(file.under("network."))
        restore_adam(self._optimizer, file.under("adam."))
        self._optimizer.param_groups[0].update(lr=state["rate"], betas=tuple(state["betas"]))
        self._schedule.load_state_dict({"last_epoch": self.step, "_step_count": self.step + 1})
        self._generator.set_state(file.tensors["generator"])

    def _identity(self) -> dict[str, Any]:
        """What a run must share with a checkpoint to continue it."""
        scenario = self.curriculum.scenario.model_dump(mode="json")
        channels = recording_identity(self.curriculum.recorded)
        curriculum = {**asdict(self.curriculum), "scenario": scenario, "recorded": channels}
        return {
            "curriculum": curriculum,
            "settings": self.settings.model_dump(mode="json"),
            "seed": self._seed,
        }

    def _take_step(self) -> Tensor:
        """One batch; the Lagrangian that the last iteration reached, a scalar."""
        batch, prices = self.curriculum.draw(self.settings.batch_size, self._generator)
        reached = [lagrangian_at_gates(batch, prices, out) for out in self.network(batch, prices)]
        weighted = [w * r.mean() for w, r in zip(_DEPTH_WEIGHTS, reached, strict=True)]
        self._optimizer.zero_grad(set_to_none=True)
        (-torch.stack(weighted).sum()).backward()
        clip_grad_norm_(self.network.parameters(), 1.0)
        self._optimizer.step()
        self._schedule.step()
        return reached[-1].detach().mean()
