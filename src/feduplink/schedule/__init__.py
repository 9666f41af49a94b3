"""The fastest and the cheapest round: who sends when, at which power (docs/schedule.md)."""

from feduplink.link import Schedule
from feduplink.schedule.column_generation import ColumnGeneration, ScheduleSolution
from feduplink.schedule.delivery_rewards import check_delivery, expected_arrivals, find_rewards
from feduplink.schedule.fixed_power import FixedPowers, find_fixed_powers
from feduplink.schedule.front import bound_front, find_front, find_schedules
from feduplink.schedule.learned_schedule import (
    learned_schedules,
    learned_senders,
    load_phase_network,
    save_phase_network,
    shipped_phase_network,
)
from feduplink.schedule.participation import ChosenRounds, choose_rounds
from feduplink.schedule.schedule_bound import BoundedSchedules, bound_schedules

__all__ = [
    "BoundedSchedules",
    "ChosenRounds",
    "ColumnGeneration",
    "FixedPowers",
    "Schedule",
    "ScheduleSolution",
    "bound_front",
    "bound_schedules",
    "check_delivery",
    "choose_rounds",
    "expected_arrivals",
    "find_fixed_powers",
    "find_front",
    "find_rewards",
    "find_schedules",
    "learned_schedules",
    "learned_senders",
    "load_phase_network",
    "save_phase_network",
    "shipped_phase_network",
]
