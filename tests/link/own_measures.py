"""Measures as a user would write them: a name and a value, the slopes by autograd."""

from __future__ import annotations

from torch import Tensor

from feduplink import Measure


class AveragePower(Measure):
    """p over all rounds, W."""

    name = "power"
    symbol = "P"
    unit = "W"
    on_air_only = False
    convex_in_log_power = True

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return power


class Sinr(Measure):
    """SINR while on the air."""

    name = "sinr"

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return sinr


class PowerOnAir(Measure):
    """p while on the air, W."""

    name = "power_on_air"

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return power


class NothingToSee(Measure):
    """1, also for a silent worker."""

    name = "one"
    on_air_only = False

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return power * 0 + 1
