"""Federated learning over the uplink: tasks, local training, uploads and aggregation."""

from feduplink.federated.evaluation import evaluate_models
from feduplink.federated.federation import (
    Capacity,
    Federation,
    FederationSettings,
    measured_capacity,
    side_by_side,
)
from feduplink.federated.history import (
    FederatedHistory,
    FinishedRound,
    PolicyHistory,
    RunHistory,
)
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
from feduplink.federated.uplink import (
    Rounds,
    UplinkRecord,
    UplinkRules,
    everyone,
    presence,
    transmit,
)

__all__ = [
    "AdamState",
    "Aggregation",
    "Arrivals",
    "Capacity",
    "ExactAverage",
    "Examples",
    "FederatedData",
    "FederatedHistory",
    "Federation",
    "FederationSettings",
    "FinishedRound",
    "LinearAverage",
    "LocalWork",
    "Minibatches",
    "PolicyHistory",
    "PublishedAverage",
    "RoundBatches",
    "Rounds",
    "RunHistory",
    "Task",
    "UnbiasedAverage",
    "UplinkRecord",
    "UplinkRules",
    "clip_each_",
    "draw_batches",
    "error_rate",
    "evaluate_models",
    "everyone",
    "find_aggregation",
    "load_task",
    "measured_capacity",
    "optimiser",
    "presence",
    "side_by_side",
    "task_options",
    "transmit",
]
