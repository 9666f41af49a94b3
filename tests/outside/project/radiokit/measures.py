from __future__ import annotations

import math

from torch import Tensor

from feduplink import SeparableMeasure


class Power(SeparableMeasure):
    """Transmit power, over all rounds."""

    name = "power"
    unit = "W"
    on_air_only = False
    convex_in_log_power = True

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return power


class Bits(SeparableMeasure):
    """Spectral efficiency in bits."""

    name = "bits"
    unit = "bit/s/Hz"

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        return sinr.log1p() / math.log(2)
