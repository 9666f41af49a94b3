"""Training of the network of ``pdx``: maximise the Lagrangian at random channels and prices.

A step is some thousand small kernels, and starting them takes a GPU's host four times as long as
computing them. CUDA graphs start them all at once.

No constraint appears here. The network learns the inner problem of the dual, max_p of the
Lagrangian, for any channel, weights, Pmax and multipliers; the multipliers that make the
constraints of a scenario hold are found afterwards, with the network in the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.policies.pdx_network import (
    UnrolledNetwork,
    better_end,
    lagrangian_at_gates,
    price_unit,
)
from feduplink.progress import Callback, Step, track
from feduplink.randomness import torch_generator
from feduplink.settings import NetworkSettings
from feduplink.storage.tensorfile import (
    TensorFile,
    check_same,
    fitting,
    read_tensors,
    write_tensors,
)
from feduplink.training.curriculum import Curriculum
from feduplink.training.trainer import adam_tensors, restore_adam

#: How much each iteration's output counts in the loss, the start first.
_DEPTH_WEIGHTS = (0.05, 0.1, 0.2, 0.35, 0.6, 1.0)
#: How much the mean of both starts counts beside the better one: none is to be given up.
_EITHER = 0.2
#: Lagrangians count as they are, in units of the workers' weights, but those at higher prices than
#: this no more than at such prices.
_HIGHEST_UNIT = 8.0


class NetworkLoss(nn.Module):
    """Minus the Lagrangian that the iterations reach from the better start, later ones count more.

    A function of tensors alone: a number would become part of a recorded graph.
    """

    def __init__(self, network: UnrolledNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        direct: Tensor,
        cross: Tensor,
        pmax_w: Tensor,
        static_power_w: Tensor,
        radio: Tensor,
        prices: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, the Lagrangian of the last iteration, scalars, and its powers (N, L) in W.

        The first four as in a :class:`ChannelBatch`; ``radio`` has the waterfall and the
        amplifier's inefficiency, (2,), ``prices`` those of success, rate, efficiency and of being
        on the air, (4, N, L).
        """
        waterfall, inefficiency = cast("tuple[float, float]", radio.unbind())
        batch = ChannelBatch(direct, cross, pmax_w, waterfall, static_power_w, inefficiency)
        success, rate, efficiency, activation_cost = prices.unbind()
        priced = Prices(success, rate, efficiency, activation_cost)
        outputs = self.network(batch, priced)
        workers = direct.shape[-1]
        unit = (workers * price_unit(priced, static_power_w)).clamp_max(_HIGHEST_UNIT)
        reached = []
        for output in outputs:
            ends = unit * lagrangian_at_gates(batch, priced, output)
            reached.append(((1 - _EITHER) * ends.amax(0) + _EITHER * ends.mean(0)).mean())
        weighted = [weight * value for weight, value in zip(_DEPTH_WEIGHTS, reached, strict=True)]
        with torch.no_grad():
            power = pmax_w * better_end(batch, priced, outputs[-1])
        return -torch.stack(weighted).sum(), reached[-1].detach(), power


class RecordedLosses:
    """The loss of a network; on a GPU each number of workers is recorded when it first comes."""

    def __init__(self, network: UnrolledNetwork) -> None:
        self._loss = NetworkLoss(network)
        self._pool: Any = None
        self._recorded: dict[torch.Size, Callable[..., Any]] = {}

    def __call__(self, batch: ChannelBatch, prices: Prices) -> tuple[Tensor, Tensor, Tensor]:
        """As :class:`NetworkLoss`, for a batch in float32 and prices (N, L)."""
        tensors = (
            batch.direct,
            batch.cross,
            batch.pmax_w,
            batch.static_power_w,
            batch.direct.new_tensor([batch.waterfall, batch.amplifier_inefficiency]),
            torch.stack((prices.success, prices.rate, prices.efficiency, prices.activation_cost)),
        )
        if not batch.direct.is_cuda:
            loss, reached, power = self._loss(*tensors)
            return loss, reached, power
        size = batch.direct.shape
        if size not in self._recorded:
            # Recording replaces the module's forward, so every size has a module of its own
            # around the one network. All share their memory: one runs at a time.
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._recorded[size] = torch.cuda.make_graphed_callables(
                NetworkLoss(self._loss.network), tensors, pool=self._pool
            )
        loss, reached, power = self._recorded[size](*tensors)
        # What was recorded passes for differentiable as a whole.
        return loss, reached.detach(), power.detach()


#: Steps between two reports and two checkpoints.
_REPORT_EVERY = 100
_CHECKPOINT = "pdx training checkpoint"
#: To be increased when a checkpoint changes its meaning, so that older ones are refused.
_FORMAT = 1


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
        self._loss = RecordedLosses(network)
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

    def run(self, callbacks: Sequence[Callback] = (), checkpoint: Path | None = None) -> None:
        """Take the steps that are left.

        The ``callbacks`` are called every hundred steps with the Lagrangian reached; as often the
        state is written to ``checkpoint``.
        """
        earlier = [Step(self.step)] if self.step else []
        steps = self.settings.steps
        with track("training of pdx", steps, "steps", callbacks, earlier=earlier) as progress:
            while self.step < steps:
                reached = self._take_step()
                self.step += 1
                if self.step % _REPORT_EVERY == 0:
                    if checkpoint:
                        self.save(checkpoint)
                    progress.advance(self.step, {"Lagrangian": float(reached)})

    def save(self, path: Path) -> None:
        """Write a checkpoint of the state between two steps."""
        group = self._optimizer.param_groups[0]
        curriculum = self.curriculum.state()
        tensors = {
            **{f"network.{k}": v for k, v in self.network.state_dict().items()},
            **{f"adam.{k}": v for k, v in adam_tensors(self._optimizer).items()},
            **{f"curriculum.{k}": v for k, v in curriculum.tensors.items()},
            "generator": self._generator.get_state(),
        }
        state = {
            "step": self.step,
            "rate": group["lr"],
            "betas": list(group["betas"]),
            "curriculum": curriculum.header,
        }
        write_tensors(path, _CHECKPOINT, TensorFile(tensors, {**self._identity(), "state": state}))

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same curriculum, settings and seed."""
        file = read_tensors(path, _CHECKPOINT)
        check_same(path, file, self._identity())
        with fitting(path, _CHECKPOINT, "this run"):
            state = file.header["state"]
            self.step = state["step"]
            self.network.load_state_dict(file.under("network."))
            restore_adam(self._optimizer, file.under("adam."))
            self._optimizer.param_groups[0].update(lr=state["rate"], betas=tuple(state["betas"]))
            self._schedule.load_state_dict({"last_epoch": self.step, "_step_count": self.step + 1})
            self._generator.set_state(file.tensors["generator"])
            self.curriculum.restore(
                TensorFile(file.under("curriculum."), state["curriculum"]), self._generator.device
            )

    def _identity(self) -> dict[str, Any]:
        """What a run must share with a checkpoint to continue it."""
        return {
            "format": _FORMAT,
            "curriculum": self.curriculum.identity(),
            "settings": self.settings.model_dump(mode="json"),
            "seed": self._seed,
        }

    def _take_step(self) -> Tensor:
        """One batch; the Lagrangian that the last iteration reached, a scalar."""
        batch, prices = self.curriculum.draw(self.settings.batch_size, self._generator)
        loss, reached, power = self._loss(batch, prices)
        self.curriculum.respond(power)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_grad_norm_(self.network.parameters(), 1.0)
        self._optimizer.step()
        self._schedule.step()
        return reached
