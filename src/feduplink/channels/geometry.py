"""Where workers and base stations stand, and how workers move. Metres, cell centre at (0, 0)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def base_station_positions(count: int, cell_side_m: float) -> Tensor:
    """Evenly spread base stations, (count, 2) m: rows of a near-square grid over the cell.

    One station stands at the centre, four in the middle of the quarters.
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
    """Workers uniform in the square cell, (count, workers, 2) m."""
    unit = torch.rand(count, workers, 2, generator=generator, device=generator.device)
    return (unit - 0.5) * cell_side_m


def walk(start: Tensor, steps: int, step_m: float, side_m: float, gen: torch.Generator) -> Tensor:
    """Random walk from ``start`` (L, 2), reflected at the border of the cell.

    Each step has length ``step_m`` and a uniform direction. Returns (steps, L, 2), the start
    first.
    """
    angle = torch.rand(steps - 1, start.shape[0], generator=gen, device=gen.device) * 2 * math.pi
    moves = step_m * torch.stack((angle.cos(), angle.sin()), dim=-1)
    path = torch.cat((start[None], start + moves.cumsum(dim=0)))
    # A free walk folded back into the cell is the reflected walk: a triangle wave of period
    # twice the side.
    folded = torch.remainder(path + side_m / 2, 2 * side_m)
    return torch.where(folded > side_m, 2 * side_m - folded, folded) - side_m / 2


def distances(workers_at: Tensor, stations_at: Tensor) -> Tensor:
    """Distance of every worker to every base station, (..., L, K) m."""
    offset: Tensor = workers_at[..., :, None, :] - stations_at.to(workers_at)
    return offset.square().sum(dim=-1).sqrt()
