"""The shipped tasks, by name."""

from __future__ import annotations

from pathlib import Path

from feduplink.errors import InputError
from feduplink.federated.partition import Partition
from feduplink.federated.task import Task
from feduplink.federated.tasks import airquality, digits, imdb, mnist

#: In the order of the documentation; the first needs no download.
TASKS = ("digits", "mnist", "airquality", "imdb")


def load_task(
    name: str, *, workers: int, partition: Partition = "iid", directory: Path | None = None
) -> Task:
    """The task of this name for so many workers.

    ``directory`` holds the data sets; None looks at ``FEDUPLINK_DATA``.
    """
    if name not in TASKS:
        raise InputError(f"task: {name!r} is unknown; accepted: {', '.join(TASKS)}.")
    if name == "digits":
        return digits.task(workers, partition)
    if name == "mnist":
        return mnist.task(workers, partition, directory)
    if partition != "iid":
        raise InputError(
            f"partition: {partition!r} is for images; accepted with the task {name!r}: iid."
        )
    return (
        airquality.task(workers, directory)
        if name == "airquality"
        else imdb.task(workers, directory)
    )


__all__ = ["TASKS", "load_task"]
