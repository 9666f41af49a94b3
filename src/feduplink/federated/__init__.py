"""Federated learning over the uplink: tasks, local training, arrivals, averages."""

from feduplink.federated.evaluation import evaluate
from feduplink.federated.federation import (
    Capacity,
    Federation,
    FederationSettings,
    TrialRound,
    federate,
    measured_capacity,
    side_by_side,
)
from feduplink.federated.history import FederatedHistory, FinishedRound, RunHistory
from feduplink.federated.local_training import AdamState, clip_each_, optimiser
from feduplink.federated.minibatches import Minibatches, RoundBatches, draw_batches
from feduplink.federated.server import (
    Aggregation,
    Arrivals,
    ExactAverage,
    LinearAverage,
    PublishedAverage,
    UnbiasedAverage,
    find_aggregation,
)
from feduplink.federated.tasks.loading import load_task, task_options
from feduplink.federated.tasks.task import Examples, FederatedData, LocalWork, Task, error_rate
from feduplink.federated.uplink.access import (
    OFDMA,
    TDMA,
    AccessScheme,
    Ideal,
    Sender,
    find_access_scheme,
    find_senders,
)
from feduplink.federated.uplink.rounds import Rounds, UplinkRules, Uploads, presence
from feduplink.federated.uplink.schedules import (
    ComputedSchedule,
    FixedPowerAccess,
    LearnedSchedule,
    ScheduledAccess,
)

__all__ = [
    "OFDMA",
    "TDMA",
    "AccessScheme",
    "AdamState",
    "Aggregation",
    "Arrivals",
    "Capacity",
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
    "Minibatches",
    "PublishedAverage",
    "RoundBatches",
    "Rounds",
    "RunHistory",
    "ScheduledAccess",
    "Sender",
    "Task",
    "TrialRound",
    "UnbiasedAverage",
    "UplinkRules",
    "Uploads",
    "clip_each_",
    "draw_batches",
    "error_rate",
    "evaluate",
    "federate",
    "find_access_scheme",
    "find_aggregation",
    "find_senders",
    "load_task",
    "measured_capacity",
    "optimiser",
    "presence",
    "side_by_side",
    "task_options",
]
