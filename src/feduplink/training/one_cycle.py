"""Training on fresh batches with a one-cycle learning rate, without validation."""

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
    """Abstract base class of training with AdamW and a one-cycle learning rate.

    Every batch is drawn anew, so that no validation is needed. An epoch has
    :attr:`steps_per_epoch` steps; the last epoch has the remaining ones. A subclass implements
    :meth:`draw`, :meth:`loss` and :meth:`figures`.

    Args:
        network: module to train, in place.
        settings: number of steps, batch size and maximum learning rate.
        seed: seed of the batches.
        clip_norm: maximum norm of the gradient.
        fused: whether AdamW runs as one kernel; None uses the default of PyTorch.
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
        """Number of steps so far."""
        return self.schedule.last_epoch

    @abstractmethod
    def draw(self) -> Any:
        """Draw a batch."""

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """Compute the loss of a batch, a differentiable scalar."""

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """Metrics of the last batch, by name."""

    def batches(self, epoch: int) -> Iterator[Any]:
        """Draw the batches of an epoch one by one."""
        for _ in range(min(self.steps_per_epoch, self.settings.steps - self.steps)):
            yield self.draw()

    def step(self, batch: Any) -> None:
        """Take one step of AdamW on the loss of a batch, with gradient clipping."""
        loss = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_grad_norm_(self.network.parameters(), self._clip_norm)
        self.optimizer.step()
        self.schedule.step()

    def end_epoch(self, epoch: int) -> NetworkEpoch:
        """Record the metrics of the last batch."""
        return NetworkEpoch(epoch, self.steps, self.figures())

    def identity(self) -> dict[str, Any]:
        """Settings and seed."""
        return {"settings": self.settings.model_dump(mode="json"), "seed": self.seed}

    def state(self) -> dict[str, Any]:
        """Number of steps, which is the position in the learning-rate cycle."""
        return {"steps": self.steps}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the position in the learning-rate cycle."""
        steps = state["steps"]
        self.schedule.load_state_dict({"last_epoch": steps, "_step_count": steps + 1})
