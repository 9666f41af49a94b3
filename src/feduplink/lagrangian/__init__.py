"""The Lagrangian of one channel: prices, value, derivatives and maximiser."""

from feduplink.lagrangian.channel_batch import (
    ChannelBatch,
    gradient_and_hessian,
    log_power_derivatives,
)
from feduplink.lagrangian.maximiser import (
    Maximiser,
    MultiStart,
    climb,
    improve,
    maximise,
    newton_ascent,
    newton_step,
    starting_points,
    sweep,
    switched_from_each,
)
from feduplink.lagrangian.prices import DualPoint, Multipliers, Prices

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
    "newton_ascent",
    "newton_step",
    "starting_points",
    "sweep",
    "switched_from_each",
]
