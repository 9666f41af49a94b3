"""A constraint of your own: the average power that each device may send with.

    feduplink optimum --constraints "average_power:AveragePower <= 0.003"
    feduplink train --policy pdg --constraints "average_power:AveragePower <= 0.003"

in the directory of this file. The mean is over all rounds: a silent device saves power.
"""

from torch import Tensor

from feduplink import SeparableMeasure


class AveragePower(SeparableMeasure):
    """The transmit power p of a worker."""

    name = "power"
    symbol = "P"
    unit = "W"
    on_air_only = False
    convex_in_log_power = True

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """p."""
        return power
