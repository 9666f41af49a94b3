"""Federated learning over the uplink: tasks, local training, arrivals, averages."""

from feduplink.federated.aggregation import Aggregation
from feduplink.federated.federation import Federation, federate
from feduplink.federated.history import FederatedHistory, FinishedRound, RunHistory
from feduplink.federated.partition import Partition
from feduplink.federated.settings import FederationSettings
from feduplink.federated.task import Examples, FederatedData, LocalWork, Task, error_rate
from feduplink.federated.tasks import TASKS, load_task
from feduplink.federated.uplink import Ideal, OrthogonalAccess, Sender, presence

__all__ = [
    "TASKS",
    "Aggregation",
    "Examples",
    "FederatedData",
    "FederatedHistory",
    "Federation",
    "FederationSettings",
    "FinishedRound",
    "Ideal",
    "LocalWork",
    "OrthogonalAccess",
    "Partition",
    "RunHistory",
    "Sender",
    "Task",
    "error_rate",
    "federate",
    "load_task",
    "presence",
]
