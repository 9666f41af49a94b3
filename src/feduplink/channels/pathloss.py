"""Mean power gain of a link as a function of distance."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

#: Shortest distance of the Hata–COST231 model, m. The formula was fitted beyond 1 km; 3GPP
#: (TR 25.996, spatial channel model) uses it from 35 m on, and so do we.
HATA_MIN_DISTANCE_M = 35.0
HATA_STATION_HEIGHT_M = 30.0
HATA_MOBILE_HEIGHT_M = 1.5
HATA_URBAN_CORRECTION_DB = 3.0

#: Standard deviation of the log-normal shadowing, dB.
SHADOWING_STD_DB = 8.0


def wideband_spatial_gain(distance_m: Tensor) -> Tensor:
    """Path gain 2·10^(−8.4) / (1 + (d/35 m)^4.5) of the paper's wideband spatial model."""
    return 2 * 10**-8.4 / (1 + (distance_m / 35.0) ** 4.5)


def hata_cost231_gain(distance_m: Tensor, *, urban: bool, carrier_hz: float) -> Tensor:
    """Hata–COST231 path gain, linear.

    Loss in dB: 45.5 + (35.46 − 1.1 h_m) log10 f + 0.7 h_m − 13.82 log10 h_b
    + (44.9 − 6.55 log10 h_b) log10 d + C, with f in MHz, d in km, C = 3 dB in urban cells.
    Distances under :data:`HATA_MIN_DISTANCE_M` are clamped to it, with a warning.
    """
    if bool((distance_m < HATA_MIN_DISTANCE_M).any()):
        warnings.warn(
            f"Hata–COST231: distances under {HATA_MIN_DISTANCE_M:g} m are outside the model's "
            "range and were clamped to it",
            stacklevel=2,
        )
    log_d_km = torch.log10(distance_m.clamp_min(HATA_MIN_DISTANCE_M) / 1000)
    log_f_mhz = math.log10(carrier_hz / 1e6)
    log_h_b = math.log10(HATA_STATION_HEIGHT_M)
    h_m = HATA_MOBILE_HEIGHT_M
    fixed_db = 45.5 + (35.46 - 1.1 * h_m) * log_f_mhz + 0.7 * h_m - 13.82 * log_h_b
    if urban:
        fixed_db += HATA_URBAN_CORRECTION_DB
    loss_db = fixed_db + (44.9 - 6.55 * log_h_b) * log_d_km
    return 10 ** (-loss_db / 10)


def shadowing_gain(shape: tuple[int, ...], std_db: float, generator: torch.Generator) -> Tensor:
    """Log-normal shadowing of the given standard deviation in dB, linear."""
    return 10 ** (std_db / 10 * torch.randn(shape, generator=generator, device=generator.device))
