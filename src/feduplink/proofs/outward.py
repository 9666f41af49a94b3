"""Sums, products and quotients of float64 arrays, rounded up or down.

IEEE 754 demands of + − × ÷ the float64 that is nearest to the exact result. So the exact result is
between the two neighbours of the computed one, whatever the numbers: no more is needed for limits
that are true. Functions such as exp and log come with no such guarantee; where they are needed,
balls are computed with (:mod:`feduplink.proofs.balls`).

All numbers here are at least 0, and :mod:`feduplink.proofs.proof_file` keeps them far from
overflow and underflow.
"""

from __future__ import annotations

import numpy as np

from feduplink.proofs.proof import Floats


def up(value: Floats) -> Floats:
    """No less than the exact result that was rounded to ``value``."""
    return np.nextafter(value, np.inf)


def down(value: Floats) -> Floats:
    """No more than it."""
    return np.nextafter(value, -np.inf)


def noise_and_interference_up(cross: Floats, power: Floats) -> Floats:
    """No less than 1 + Σ_j β_ij p_j, (n, L), for gains (n, L, L) and powers (n, L)."""
    total = np.ones_like(power)
    for worker in range(power.shape[-1]):
        total = up(total + up(cross[:, :, worker] * power[:, worker, None]))
    return total


def noise_and_interference_down(cross: Floats, power: Floats) -> Floats:
    """No more than 1 + Σ_j β_ij p_j, (n, L)."""
    total = np.ones_like(power)
    for worker in range(power.shape[-1]):
        total = down(total + down(cross[:, :, worker] * power[:, worker, None]))
    return total
