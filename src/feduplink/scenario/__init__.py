"""A system in one validated description, made of its cell, its radio and its goal."""

from feduplink.scenario.cell import Cell
from feduplink.scenario.goal import Goal, data_sizes
from feduplink.scenario.radio import Radio
from feduplink.scenario.scenario import DRAWING_FIELDS, Scenario, shipped_scenarios

__all__ = [
    "DRAWING_FIELDS",
    "Cell",
    "Goal",
    "Radio",
    "Scenario",
    "data_sizes",
    "shipped_scenarios",
]
