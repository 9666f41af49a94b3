from __future__ import annotations

import torch
from torch import nn

from feduplink.federated import Examples, FederatedData, LocalWork, Task


def line(workers: int) -> Task:
    """Fit y = 2 x + 1."""

    def draw(rng) -> FederatedData:
        def examples(count: int) -> Examples:
            x = torch.from_numpy(rng.uniform(-1, 1, (count, 1))).float()
            return Examples(x, 2 * x + 1)

        return FederatedData.from_workers([examples(20) for _ in range(workers)], examples(50))

    return Task(
        name="line",
        model=lambda: nn.Linear(1, 1),
        data=draw,
        loss=lambda y, t: (y - t).square().sum(-1),
        metric=lambda y, t: (y - t).square().mean(),
        work=LocalWork(batch_size=10, learning_rate=0.05),
        rounds=5,
        metric_name="squared error",
    )
