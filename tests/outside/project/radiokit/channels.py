from __future__ import annotations

import torch
from torch import Tensor


class Ring:
    """Workers on a ring: own gains from 20 to 40 dB, neighbours heard 20 dB lower."""

    def __init__(self, scenario) -> None:
        self.workers = scenario.workers

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        own = 10 ** (2 + 2 * torch.rand(count, self.workers, generator=generator))
        near = torch.eye(self.workers).roll(1, 0) + torch.eye(self.workers).roll(-1, 0)
        cross = 0.01 * own[:, None, :] * near + 1e-6
        return cross * (1 - torch.eye(self.workers)) + torch.diag_embed(own)
