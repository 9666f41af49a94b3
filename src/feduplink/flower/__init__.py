"""The wireless uplink in Flower: a grid around any strategy, and the federated tasks as an app.

Needs ``pip install 'feduplink[flower]'``; nothing else in the package imports it.
"""

from feduplink.flower.simulation import TASK_APP, FlowerError, federate_with_flower
from feduplink.flower.task_run import TaskResult, TaskRun
from feduplink.flower.wireless_grid import UplinkRound, WirelessGrid, worker_mod

__all__ = [
    "TASK_APP",
    "FlowerError",
    "TaskResult",
    "TaskRun",
    "UplinkRound",
    "WirelessGrid",
    "federate_with_flower",
    "worker_mod",
]
