"""Channels of your own from complex gains, through MRC or MMSE receive filters.

    feduplink evaluate --policies max,openloop --channel-model complex_gains:Mmse --antennas 4

in the directory of this file; or ``Mrc``. Take h from your ray tracer or measurements instead.
"""

import torch
from torch import Tensor

from feduplink import Scenario
from feduplink.channels import mmse_csi, mrc_csi


class Mrc:
    """Maximum-ratio combining: each worker's receive filter is its own channel."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """H, (count, L, L)."""
        return mrc_csi(self.gains(count, generator))

    def gains(self, count: int, generator: torch.Generator) -> Tensor:
        """h, complex (count, L, n_R), noise power one: Rayleigh fading of 50 dB per W."""
        shape = (count, self.scenario.workers, self.scenario.antennas)
        return 316 * torch.randn(shape, dtype=torch.cfloat, generator=generator)


class Mmse(Mrc):
    """The receive filters with the least mean squared error if all send at Pmax."""

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """H, (count, L, L)."""
        return mmse_csi(self.gains(count, generator), self.scenario.max_power)
