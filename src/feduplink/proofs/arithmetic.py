"""Rigorous arithmetic: the quantities of a link as balls, and float64 operations rounded outwards.

A ball (``flint.arb``) is a midpoint and a radius; python-flint rounds such that the ball contains
the exact result for all numbers in the arguments. A comparison of balls is true only if it is true
for all numbers in them. Float64 numbers are taken as exact.

IEEE 754 requires the result of + − × ÷ to be the float64 number nearest to the exact result, which
therefore lies between the two neighbours of the computed one. Outward rounding takes the neighbour
on the safe side. Functions such as exp and log have no such guarantee; they are computed with
balls.

All numbers here are at least 0, and :mod:`feduplink.proofs.format` keeps them far from
overflow and underflow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
from flint import arb, ctx

from feduplink.proofs.format import Floats

#: Bits of midpoints; the radii are then about 1e-19 of the results.
_PRECISION = 64
ZERO = arb(0)


@contextlib.contextmanager
def precision() -> Iterator[None]:
    """Context in which all balls have midpoints of 64 bits."""
    with ctx.workprec(_PRECISION):
        yield


def success(sinr: arb, waterfall: arb) -> arb:
    """PSR = exp(−m / SINR)."""
    return (-waterfall / sinr).exp()


def rate(sinr: arb) -> arb:
    """R = ln(1 + SINR), nats/s/Hz."""
    return sinr.log1p()


def between(low: float, high: float) -> arb:
    """A ball that contains [low, high]."""
    return arb(low).union(arb(high))


def larger(first: arb, second: arb) -> arb:
    """A ball that contains the larger of two numbers."""
    return first.max(second)


def up(value: Floats) -> Floats:
    """Upper bound on the exact result that was rounded to ``value``."""
    return np.nextafter(value, np.inf)


def down(value: Floats) -> Floats:
    """Lower bound on the exact result that was rounded to ``value``."""
    return np.nextafter(value, -np.inf)


def noise_and_interference_up(cross: Floats, power: Floats) -> Floats:
    """Upper bound on 1 + Σ_j β_ij p_j.

    Args:
        cross: β with a zero diagonal, (n, L, L), 1/W.
        power: p, (n, L), W.

    Returns:
        (n, L).
    """
    total = np.ones_like(power)
    for worker in range(power.shape[-1]):
        total = up(total + up(cross[:, :, worker] * power[:, worker, None]))
    return total


def noise_and_interference_down(cross: Floats, power: Floats) -> Floats:
    """Lower bound on 1 + Σ_j β_ij p_j; arguments as for :func:`noise_and_interference_up`."""
    total = np.ones_like(power)
    for worker in range(power.shape[-1]):
        total = down(total + down(cross[:, :, worker] * power[:, worker, None]))
    return total
