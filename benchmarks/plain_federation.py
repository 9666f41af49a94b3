"""The federated loop as one would write it first: worker by worker, module by module.

The reference that the batched engine is compared with, for equal results and for speed.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from feduplink.federated import RoundBatches
from feduplink.federated.tasks.task import FederatedData, Task


class PlainFederation:
    """One run with every upload arriving: a module and a ``torch.optim.Adam`` per worker."""

    def __init__(self, task: Task, data: FederatedData, module: nn.Module) -> None:
        self.task, self.data, self.model = task, data, module
        self.workers = [copy.deepcopy(module) for _ in data.shares]
        work = task.work
        self.optimizers = [
            torch.optim.Adam(
                worker.parameters(),
                lr=work.learning_rate,
                eps=work.epsilon,
                weight_decay=work.weight_decay,
            )
            for worker in self.workers
        ]

    def train(self, batches: RoundBatches, arrived: list[bool] | None = None) -> None:
        """One round: local training of every worker, then the average of those that arrived."""
        pool, work = self.data.pool, self.task.work
        for i, (worker, optimizer) in enumerate(zip(self.workers, self.optimizers, strict=True)):
            worker.load_state_dict(self.model.state_dict())
            for step in range(int(batches.steps[i])):
                rows = batches.rows[i, step][batches.weight[i, step] > 0]
                optimizer.zero_grad()
                loss = self.task.loss(worker(pool.inputs[rows]), pool.targets[rows]).mean()
                loss.backward()
                nn.utils.clip_grad_norm_(worker.parameters(), work.clip_norm)
                optimizer.step()
        self.average([i for i in range(len(self.workers)) if arrived is None or arrived[i]])

    def average(self, heard: Sequence[int]) -> None:
        """Σ k_i w_i / Σ k_i over the workers that were heard; nothing changes without any."""
        if not heard:
            return
        total = sum(len(self.data.shares[i]) for i in heard)
        average = {
            name: sum(
                self.workers[i].state_dict()[name] * (len(self.data.shares[i]) / total)
                for i in heard
            )
            for name in self.model.state_dict()
        }
        self.model.load_state_dict(average)

    @torch.no_grad()
    def error(self) -> float:
        """The global model's error on the test set."""
        test = self.data.test
        return float(self.task.metric(self.model(test.inputs), test.targets))

    def weights(self) -> dict[str, Tensor]:
        """The global model."""
        return {name: p.detach() for name, p in self.model.named_parameters()}
