from .access import (
    OFDMA,
    TDMA,
    AccessScheme,
    Ideal,
    Sender,
    find_access_scheme,
)
from .averages import ExactAverage, PublishedAverage, UnbiasedAverage
from .choices import Partition
from .federated_history import FederatedHistory, FinishedRound, RunHistory
from .federation import Federation, federate
from .federation_settings import FederationSettings
from .scheduled_access import (
    ComputedSchedule,
    FixedPowerAccess,
    LearnedSchedule,
    ScheduledAccess,
)
from .senders import find_senders
from .server_step import Aggregation, Arrivals, LinearAverage
from .task import Examples, FederatedData, LocalWork, Task, error_rate
from .tasks import load_task, task_options
from .uplink import Rounds, UplinkRules, Uploads, presence

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
