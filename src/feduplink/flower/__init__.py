"""Integration with Flower: wireless uplink for any strategy, and federated tasks as an app.

Requires ``pip install 'feduplink[flower]'``.
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
