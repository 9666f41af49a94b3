"""Measures as a user would write them: a name and a value, the slopes by autograd."""

from __future__ import annotations

from torch import Tensor

# The example's; from here it is found as ``link.own_measures:AveragePower``.
from average_power import AveragePower as AveragePower
from feduplink import SeparableMeasure


class Sinr(SeparableMeasure):
    """SINR while on the air."""

    name = "sinr"

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return sinr


class PowerOnAir(SeparableMeasure):
    """p while on the air, W."""

    name = "power_on_air"

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return power


class NothingToSee(SeparableMeasure):
    """1, also for a silent worker."""

    name = "one"
    on_air_only = False

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return power * 0 + 1
