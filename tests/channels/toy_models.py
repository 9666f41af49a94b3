"""Channel models as users write them: one that works, and some that do not."""

from __future__ import annotations

import torch

from feduplink import Scenario
from feduplink.channels import Realisations
from feduplink.registry import CHANNEL_MODELS


class Exponential:
    """Exponential gains, 30 dB over the noise of 1 W on the diagonal and 10 dB off it."""

    def __init__(self, scenario: Scenario) -> None:
        self.workers = scenario.workers

    def draw(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> torch.Tensor:
        mean = torch.full((self.workers, self.workers), 10.0).fill_diagonal_(1000.0)
        drawn = torch.rand(count, self.workers, self.workers, generator=generator)
        return mean * (1e-3 - drawn.clamp_max(1 - 1e-6).neg().log1p())


class _Ones(Exponential):
    def draw(self, count, generator, *, cell=None):
        return torch.ones(count, self.workers, self.workers)


class Doubles(_Ones):
    def draw(self, count, generator, *, cell=None):
        return super().draw(count, generator).double()


class TooFew(_Ones):
    def draw(self, count, generator, *, cell=None):
        return super().draw(count - 1, generator)


class Flat(_Ones):
    def draw(self, count, generator, *, cell=None):
        return super().draw(count, generator)[..., 0]


class Listed(_Ones):
    def draw(self, count, generator, *, cell=None):
        return super().draw(count, generator).tolist()


class Whole(_Ones):
    def draw(self, count, generator, *, cell=None):
        return super().draw(count, generator).long()


class NotANumber(_Ones):
    def draw(self, count, generator, *, cell=None):
        return super().draw(count, generator) * torch.nan


class Negative(_Ones):
    def draw(self, count, generator, *, cell=None):
        return -super().draw(count, generator)


class TooLarge(_Ones):
    """Finite in double precision alone."""

    def draw(self, count, generator, *, cell=None):
        return super().draw(count, generator).double() * 1e60


class FewAntennas(_Ones):
    def draw_with_antennas(self, count, generator, *, cell=None):
        antenna = torch.ones(count, self.workers - 1, 1, 2, dtype=torch.complex64)
        return Realisations(self.draw(count, generator), antenna)


class RealAntennas(_Ones):
    def draw_with_antennas(self, count, generator, *, cell=None):
        return Realisations(self.draw(count, generator), torch.ones(count, self.workers, 1, 2))


CHANNEL_MODELS.register("toy", Exponential)
