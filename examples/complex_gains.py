"""Channels of your own from complex gains, through MRC or MMSE receive filters.

    feduplink evaluate --policies max,openloop --channel-model complex_gains:Mmse --antennas 4

in the directory of this file; or ``Mrc``. Take h from your ray tracer or measurements instead.
"""

import torch
from torch import Tensor

from feduplink import Scenario


class Mrc:
    """Maximum-ratio combining: each worker's receive filter is its own channel."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """H_ij = |w_iᴴ h_j|² / ‖w_i‖², (count, L, L), with Rayleigh fading of 50 dB per W."""
        shape = (count, self.scenario.workers, self.scenario.antennas)
        h = 316 * torch.randn(shape, dtype=torch.cfloat, generator=generator)  # noise power one
        w = torch.nn.functional.normalize(self.filters(h), dim=-1)
        return (w.conj() @ h.mT).abs().square()

    def filters(self, h: Tensor) -> Tensor:
        """w_i = h_i, complex (count, L, n_R)."""
        return h


class Mmse(Mrc):
    """Least mean squared error if all send at Pmax: w_i = (Σ_j Pmax_j h_j h_jᴴ + I)⁻¹ h_i."""

    def filters(self, h: Tensor) -> Tensor:
        """w, complex (count, L, n_R)."""
        sent = h * self.scenario.pmax_w.to(h).sqrt().reshape(-1, 1)
        w: Tensor = torch.linalg.solve(sent.mT @ sent.conj() + torch.eye(h.shape[-1]), h.mT).mT
        return w
