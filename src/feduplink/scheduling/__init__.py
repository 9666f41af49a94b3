"""Schedules of upload phases with minimum time + κ · energy per round (docs/schedule.md)."""

from feduplink.scheduling.column_generation import (
    BoundedSchedules,
    ScheduleSolution,
    bound_front,
    find_front,
    find_schedules,
    phase_prices,
)
from feduplink.scheduling.fixed_power import find_fixed_powers
from feduplink.scheduling.learned import (
    PhaseProposal,
    PricedRounds,
    learned_schedules,
    learned_senders,
    mixing_loss,
    shipped_phase_network,
)
from feduplink.scheduling.linear_program import MasterProgram, SingleProgram
from feduplink.scheduling.participation import (
    ChosenRounds,
    check_delivery,
    choose_rounds,
    expected_arrivals,
    find_rewards,
)
from feduplink.scheduling.phase_network import (
    NetworkView,
    NetworkWeights,
    PhaseNetwork,
    Sight,
    first_look,
    network_step,
)
from feduplink.scheduling.phases import AscentSteps, ascend, best_alone, phase_cost, phase_rates

__all__ = [
    "AscentSteps",
    "BoundedSchedules",
    "ChosenRounds",
    "MasterProgram",
    "NetworkView",
    "NetworkWeights",
    "PhaseNetwork",
    "PhaseProposal",
    "PricedRounds",
    "ScheduleSolution",
    "Sight",
    "SingleProgram",
    "ascend",
    "best_alone",
    "bound_front",
    "check_delivery",
    "choose_rounds",
    "expected_arrivals",
    "find_fixed_powers",
    "find_front",
    "find_rewards",
    "find_schedules",
    "first_look",
    "learned_schedules",
    "learned_senders",
    "mixing_loss",
    "network_step",
    "phase_cost",
    "phase_prices",
    "phase_rates",
    "shipped_phase_network",
]
