"""Channels of your own from complex gains, through MRC or MMSE receive filters.

    feduplink evaluate --channel-model complex_gains:Mmse --antennas 10

in the directory of this file. Replace ``gains`` by your ray tracer or measurements.
"""

import torch
from torch import Tensor

from feduplink import Scenario


class Mrc:
    """Maximum-ratio combining: each worker's receive filter is its own channel."""

    def __init__(self, scenario: Scenario) -> None:
        self.shape, self.pmax = (scenario.workers, scenario.antennas), scenario.pmax_w.max()

    def gains(self, count: int, generator: torch.Generator) -> Tensor:
        """h over the noise, complex (count, L, n_R): Rayleigh, 50 dB at 1 W."""
        return 316 * torch.randn(count, *self.shape, dtype=torch.cfloat, generator=generator)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """H_ij = |w_iᴴ h_j|² / ‖w_i‖² with receive filters w, (count, L, L)."""
        h = self.gains(count, generator)
        w = torch.nn.functional.normalize(self.filters(h), dim=-1)
        return (w.conj() @ h.mT).abs().square()

    filters = staticmethod(lambda h: h)


class Mmse(Mrc):
    """Minimum mean squared error against interferers at Pmax: (Σ Pmax h_j h_jᴴ + I)⁻¹ h_i."""

    def filters(self, h: Tensor) -> Tensor:
        """w, complex (count, L, n_R)."""
        received = self.pmax * h.mT @ h.conj() + torch.eye(h.shape[-1])
        return torch.linalg.solve(received, h.mT).mT
