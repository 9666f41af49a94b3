"""The Lagrangian of one channel: prices, value, derivatives, and its maximiser."""

from feduplink.lagrangian.channel_batch import (
    ChannelBatch,
    gradient_and_hessian,
    log_power_derivatives,
)
from feduplink.lagrangian.dual_point import DualPoint
from feduplink.lagrangian.maximise import (
    Maximiser,
    MultiStart,
    climb,
    improve,
    maximise,
    starting_points,
    sweep,
    switched_from_each,
)
from feduplink.lagrangian.prices import Multipliers, Prices

__all__ = [
    "ChannelBatch",
    "DualPoint",
    "Maximiser",
    "MultiStart",
    "Multipliers",
    "Prices",
    "climb",
    "gradient_and_hessian",
    "improve",
    "log_power_derivatives",
    "maximise",
    "starting_points",
    "sweep",
    "switched_from_each",
]
