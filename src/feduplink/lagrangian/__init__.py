"""The Lagrangian of one channel: prices, value, derivatives, and its maximiser."""

from feduplink.lagrangian.maximise import (
    HillTops,
    Maximiser,
    climb,
    improve,
    maximise,
    starting_points,
    sweep,
)
from feduplink.lagrangian.prices import Multipliers, Prices
from feduplink.lagrangian.terms import Cell, gradient_and_hessian

__all__ = [
    "Cell",
    "HillTops",
    "Maximiser",
    "Multipliers",
    "Prices",
    "climb",
    "gradient_and_hessian",
    "improve",
    "maximise",
    "starting_points",
    "sweep",
]
