"""Training the network of ``pdx``: maximise the Lagrangian at random channels and prices.

No constraint appears here. The network learns the inner problem of the dual, max_p of the
Lagrangian, for any channel, weights, Pmax and multipliers; the multipliers that make the
constraints of a scenario hold are found afterwards, with the network in the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from feduplink.learning.adam_state import adam_tensors, restore_adam
from feduplink.learning.curriculum import Curriculum
from feduplink.learning.network_loss import RecordedLosses
from feduplink.learning.network_settings import NetworkSettings
from feduplink.policies.unrolled_network import UnrolledNetwork
from feduplink.progress import Advance, Observer, track
from feduplink.randomness import torch_generator
from feduplink.tensorfile import TensorFile, check_same, fitting, read_tensors, write_tensors

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
