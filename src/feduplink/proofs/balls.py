"""The quantities of a link in ball arithmetic: every result is a ball that holds the exact one.

A ball (``flint.arb``) is a midpoint and a radius; python-flint rounds so that the exact result for
all numbers in the arguments is inside. A comparison of balls is true only if it is so for all
numbers in them. Float64 numbers are taken as the exact numbers they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from flint import arb, ctx

#: Bits of midpoints; the radii are then about 1e-19 of the results.
_PRECISION = 64
ZERO = arb(0)


@contextlib.contextmanager
def precision() -> Iterator[None]:
    """All balls in the block have midpoints of 64 bits."""
    with ctx.workprec(_PRECISION):
        yield


def success(sinr: arb, waterfall: arb) -> arb:
    """PSR = exp(−m / SINR)."""
    return (-waterfall / sinr).exp()


def rate(sinr: arb) -> arb:
    """R = ln(1 + SINR), nats/s/Hz."""
    return sinr.log1p()


def between(low: float, high: float) -> arb:
    """A ball that holds [low, high]."""
    return arb(low).union(arb(high))


def larger(first: arb, second: arb) -> arb:
    """A ball that holds the larger one of two numbers."""
    return first.max(second)
