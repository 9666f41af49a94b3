"""The fastest and the cheapest round: who sends when, at which power (docs/schedule.md)."""

from feduplink.link import Schedule
from feduplink.schedule.column_generation import ColumnGeneration, ScheduleSolution
from feduplink.schedule.front import bound_front, find_front, find_schedules
from feduplink.schedule.schedule_bound import BoundedSchedules, bound_schedules

__all__ = [
    "BoundedSchedules",
    "ColumnGeneration",
    "Schedule",
    "ScheduleSolution",
    "bound_front",
    "bound_schedules",
    "find_front",
    "find_schedules",
]
