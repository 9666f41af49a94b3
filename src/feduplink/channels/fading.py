"""Small-scale fading: Rayleigh, i.i.d. or correlated in time (Gauss–Markov)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SPEED_OF_LIGHT_MPS = 299_792_458.0


def rayleigh(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Unit-power circular Gaussian coefficients as (real, imaginary) in the last axis.

    Returns ``shape + (2,)``; the squared norm over the last axis has mean one. Two real numbers
    instead of a complex one, because products of small real matrices are the faster ones.
    """
    return torch.randn(*shape, 2, generator=generator, device=generator.device).mul_(math.sqrt(0.5))


def coherence_time(speed_mps: float, carrier_hz: float) -> float:
    """Coherence time 0.423 / f_D of Clarke's model in s, with Doppler f_D = v f_c / c."""
    return 0.423 * SPEED_OF_LIGHT_MPS / (speed_mps * carrier_hz)


def correlation(interval_s: float, coherence_time_s: float) -> float:
    """Gauss–Markov coefficient ρ = exp(−interval / coherence time) between two rounds."""
    return math.exp(-interval_s / coherence_time_s)


def gauss_markov(innovations: Tensor, rho: float) -> Tensor:
    """Correlate unit-power innovations along the first axis (time).

    h_0 = w_0 and h_n = ρ h_{n−1} + √(1−ρ²) w_n: every h_n keeps unit power, and the correlation
    over k rounds is ρ^k.
    """
    correlated = innovations.clone()
    fresh = math.sqrt(1 - rho**2)
    for n in range(1, len(correlated)):
        correlated[n] = rho * correlated[n - 1] + fresh * innovations[n]
    return correlated
