"""The wireless uplink for Flower: a grid around any strategy, and apps for federated tasks.

Needs ``pip install 'feduplink[flower]'``; nothing else in the package imports it.
"""

from feduplink.errors import InputError

try:
    from feduplink.flower.task_result import TaskResult
    from feduplink.flower.task_run import TaskRun
    from feduplink.flower.uplink_round import UplinkRound
    from feduplink.flower.wireless_grid import WirelessGrid
    from feduplink.flower.worker_mod import worker_mod
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "flwr":
        raise
    raise InputError(
        "flower: flwr is not installed; accepted: pip install 'feduplink[flower]'."
    ) from None

__all__ = ["TaskResult", "TaskRun", "UplinkRound", "WirelessGrid", "worker_mod"]
