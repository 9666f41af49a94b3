"""Propagation: positions and mobility, path gain, shadowing and small-scale fading."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

SPEED_OF_LIGHT_MPS = 299_792_458.0


def rayleigh(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw circularly symmetric complex Gaussian coefficients of unit mean power.

    Args:
        shape: shape of the coefficients.
        generator: source of random numbers.

    Returns:
        ``shape + (2,)``, real and imaginary part in the last axis.
    """
    # Two real numbers instead of a complex one: products of small real matrices are faster.
    return torch.randn(*shape, 2, generator=generator, device=generator.device).mul_(math.sqrt(0.5))


def coherence_time(speed_mps: float, carrier_hz: float) -> float:
    """Coherence time of Clarke's model, 0.423 / f_D with the Doppler shift f_D = v f_c / c.

    Args:
        speed_mps: speed v, m/s.
        carrier_hz: carrier frequency f_c, Hz.

    Returns:
        Coherence time, s.
    """
    return 0.423 * SPEED_OF_LIGHT_MPS / (speed_mps * carrier_hz)


def correlation(interval_s: float, coherence_time_s: float) -> float:
    """Gauss–Markov coefficient ρ = exp(−interval / coherence time) between two rounds.

    Args:
        interval_s: time between rounds, s.
        coherence_time_s: coherence time, s.

    Returns:
        ρ, in (0, 1).
    """
    return math.exp(-interval_s / coherence_time_s)


def gauss_markov(innovations: Tensor, rho: float) -> Tensor:
    """Gauss–Markov process along the first axis, h_0 = w_0 and h_n = ρ h_{n−1} + √(1−ρ²) w_n.

    Every h_n has unit mean power; the correlation over k rounds is ρ^k.

    Args:
        innovations: independent coefficients w of unit mean power, (N, ...).
        rho: correlation ρ between successive rounds.

    Returns:
        h, (N, ...).
    """
    correlated = innovations.clone()
    fresh = math.sqrt(1 - rho**2)
    for n in range(1, len(correlated)):
        correlated[n] = rho * correlated[n - 1] + fresh * innovations[n]
    return correlated


def base_station_positions(count: int, cell_side_m: float) -> Tensor:
    """Positions of base stations on a nearly square grid over the cell.

    Args:
        count: number of base stations.
        cell_side_m: side of the cell, m.

    Returns:
        Coordinates relative to the centre, (count, 2), m, float64.
    """
    rows = round(math.sqrt(count))
    per_row = [len(chunk) for chunk in torch.arange(count).tensor_split(rows)]
    positions = [
        ((column + 0.5) / columns - 0.5, (row + 0.5) / rows - 0.5)
        for row, columns in enumerate(per_row)
        for column in range(columns)
    ]
    return torch.tensor(positions, dtype=torch.float64) * cell_side_m


def worker_positions(
    count: int, workers: int, cell_side_m: float, generator: torch.Generator
) -> Tensor:
    """Draw worker positions uniformly in the square cell.

    Args:
        count: number of realisations.
        workers: number of workers.
        cell_side_m: side of the cell, m.
        generator: source of random numbers.

    Returns:
        Coordinates relative to the centre, (count, workers, 2), m.
    """
    unit = torch.rand(count, workers, 2, generator=generator, device=generator.device)
    return (unit - 0.5) * cell_side_m


def walk(start: Tensor, steps: int, step_m: float, side_m: float, gen: torch.Generator) -> Tensor:
    """Random walk in the cell, reflected at its border, with uniformly distributed directions.

    Args:
        start: initial positions, (L, 2), m.
        steps: number of positions, including the initial one.
        step_m: length of a step, m.
        side_m: side of the cell, m.
        gen: source of random numbers.

    Returns:
        Positions, (steps, L, 2), m.
    """
    angle = torch.rand(steps - 1, start.shape[0], generator=gen, device=gen.device) * 2 * math.pi
    moves = step_m * torch.stack((angle.cos(), angle.sin()), dim=-1)
    path = torch.cat((start[None], start + moves.cumsum(dim=0)))
    # Folding an unbounded walk with a triangle wave of period 2 · side gives the reflected walk.
    folded = torch.remainder(path + side_m / 2, 2 * side_m)
    return torch.where(folded > side_m, 2 * side_m - folded, folded) - side_m / 2


def distances(workers_at: Tensor, stations_at: Tensor) -> Tensor:
    """Distances from workers to base stations.

    Args:
        workers_at: positions of the workers, (..., L, 2), m.
        stations_at: positions of the base stations, (K, 2), m.

    Returns:
        Distances, (..., L, K), m.
    """
    offset: Tensor = workers_at[..., :, None, :] - stations_at.to(workers_at)
    return offset.square().sum(dim=-1).sqrt()


#: Minimum distance of the Hata–COST231 model, m, as in 3GPP TR 25.996 (spatial channel model). The
#: formula was fitted to distances above 1 km.
HATA_MIN_DISTANCE_M = 35.0
HATA_STATION_HEIGHT_M = 30.0
HATA_MOBILE_HEIGHT_M = 1.5
HATA_URBAN_CORRECTION_DB = 3.0

#: Standard deviation of the log-normal shadowing, dB.
SHADOWING_STD_DB = 8.0


def wideband_spatial_gain(distance_m: Tensor) -> Tensor:
    """Path gain of the paper's wideband spatial model, 2·10^(−8.4) / (1 + (d / 35 m)^4.5).

    Args:
        distance_m: distances d, (...), m.

    Returns:
        Power gains, (...), linear.
    """
    return 2 * 10**-8.4 / (1 + (distance_m / 35.0) ** 4.5)


def hata_cost231_gain(distance_m: Tensor, *, urban: bool, carrier_hz: float) -> Tensor:
    """Hata–COST231 path gain.

    The path loss in dB is 45.5 + (35.46 − 1.1 h_m) log10 f + 0.7 h_m − 13.82 log10 h_b
    + (44.9 − 6.55 log10 h_b) log10 d + C, with f in MHz, d in km, heights h_m of the mobile and h_b
    of the base station in m, and C = 3 dB in urban areas. Distances below
    :data:`HATA_MIN_DISTANCE_M` are clamped to it, with a warning.

    Args:
        distance_m: distances, (...), m.
        urban: whether the area is urban; otherwise suburban.
        carrier_hz: carrier frequency, Hz.

    Returns:
        Power gains, (...), linear.
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
    """Draw log-normal shadowing.

    Args:
        shape: shape of the result.
        std_db: standard deviation, dB.
        generator: source of random numbers.

    Returns:
        Power gains of the given shape, linear.
    """
    return 10 ** (std_db / 10 * torch.randn(shape, generator=generator, device=generator.device))
