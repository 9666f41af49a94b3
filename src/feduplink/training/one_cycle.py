"""Training on fresh batches with a one-cycle learning rate, for networks without validation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from feduplink.randomness import torch_generator
from feduplink.settings import OneCycleSettings
from feduplink.training.history import NetworkEpoch
from feduplink.training.trainer import LearningAlgorithm


class OneCycleLearning(LearningAlgorithm[NetworkEpoch]):
    """Steps of AdamW on fresh batches, at a learning rate that rises once and then falls.

    The result needs no validation: no batch comes twice. An epoch has :attr:`steps_per_epoch`
    steps, the last one as many as are left.

    Args:
        network: module to be trained.
        settings: number of steps, batch size and largest learning rate.
        seed: seed of the batches.
        clip_norm: largest norm of the gradient.
        fused: whether AdamW runs as one kernel.
    """

    record_type = NetworkEpoch
    settings: OneCycleSettings
    unit = "steps"
    steps_per_epoch = 100

    def __init__(
        self,
        network: nn.Module,
        settings: OneCycleSettings,
        *,
        seed: int,
        clip_norm: float,
        fused: bool | None = None,
    ) -> None:
        self.network, self.settings, self.seed = network, settings, seed
        self.epochs = -(-settings.steps // self.steps_per_epoch)
        self.generator = torch_generator(
            seed, "train-channels", device=next(network.parameters()).device
        )
        self.optimizer = torch.optim.AdamW(
            network.parameters(), lr=settings.learning_rate, weight_decay=1e-4, fused=fused
        )
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer,
            max_lr=settings.learning_rate,
            total_steps=settings.steps,
            pct_start=0.05,
        )
        self._clip_norm = clip_norm

    @property
    def total(self) -> int:
        """Number of steps."""
        return self.settings.steps

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return self.schedule.last_epoch

    @abstractmethod
    def draw(self) -> Any:
        """Draw a batch."""

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """The loss of a batch, a differentiable scalar."""

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """Figures of the last batch, by name."""

    def batches(self, epoch: int) -> Iterator[Any]:
        """Draw the batches of an epoch one by one."""
        for _ in range(min(self.steps_per_epoch, self.settings.steps - self.steps)):
            yield self.draw()

    def step(self, batch: Any) -> None:
        """Descend the loss of a batch."""
        loss = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_grad_norm_(self.network.parameters(), self._clip_norm)
        self.optimizer.step()
        self.schedule.step()

    def end_epoch(self, epoch: int) -> NetworkEpoch:
        """Record the figures of the last batch."""
        return NetworkEpoch(epoch, self.steps, self.figures())

    def identity(self) -> dict[str, Any]:
        """Settings and seed."""
        return {"settings": self.settings.model_dump(mode="json"), "seed": self.seed}

    def state(self) -> dict[str, Any]:
        """Position in the learning rate's cycle."""
        return {"steps": self.steps}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue the learning rate's cycle."""
        steps = state["steps"]
        self.schedule.load_state_dict({"last_epoch": steps, "_step_count": steps + 1})
