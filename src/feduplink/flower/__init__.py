"""The wireless uplink in Flower: a grid around any strategy, and the federated tasks as an app.

Needs ``pip install 'feduplink[flower]'``; nothing else in the package imports it.
"""

from feduplink.errors import InputError

try:
    from feduplink.flower.simulation import TASK_APP, FlowerError, federate_with_flower
    from feduplink.flower.task_run import TaskResult, TaskRun
    from feduplink.flower.wireless_grid import UplinkRound, WirelessGrid, worker_mod
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("flwr", "psutil"):
        raise
    raise InputError(
        "flower: flwr is not installed; accepted: pip install 'feduplink[flower]'."
    ) from None

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
