"""Federated learning over the uplink: tasks, local training, arrivals, averages."""

from feduplink.federated.access import (
    OFDMA,
    TDMA,
    AccessScheme,
    Ideal,
    Sender,
    find_access_scheme,
)
from feduplink.federated.averages import ExactAverage, PublishedAverage, UnbiasedAverage
from feduplink.federated.federated_history import FederatedHistory, FinishedRound, RunHistory
from feduplink.federated.federation import Federation, federate
from feduplink.federated.federation_settings import FederationSettings
from feduplink.federated.partition import Partition
from feduplink.federated.scheduled_access import (
    ComputedSchedule,
    FixedPowerAccess,
    LearnedSchedule,
    ScheduledAccess,
)
from feduplink.federated.senders import find_senders
from feduplink.federated.server_step import Aggregation, Arrivals, LinearAverage
from feduplink.federated.task import Examples, FederatedData, LocalWork, Task, error_rate
from feduplink.federated.tasks import load_task, task_options
from feduplink.federated.uplink import Rounds, UplinkRules, Uploads, presence

__all__ = [
    "OFDMA",
    "TDMA",
    "AccessScheme",
    "Aggregation",
    "Arrivals",
    "ComputedSchedule",
    "ExactAverage",
    "Examples",
    "FederatedData",
    "FederatedHistory",
    "Federation",
    "FederationSettings",
    "FinishedRound",
    "FixedPowerAccess",
    "Ideal",
    "LearnedSchedule",
    "LinearAverage",
    "LocalWork",
    "Partition",
    "PublishedAverage",
    "Rounds",
    "RunHistory",
    "ScheduledAccess",
    "Sender",
    "Task",
    "UnbiasedAverage",
    "UplinkRules",
    "Uploads",
    "error_rate",
    "federate",
    "find_access_scheme",
    "find_senders",
    "load_task",
    "presence",
    "task_options",
]
