"""Lookup of tasks by name: of this package, of installed packages, or ``package.module:name``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from feduplink.errors import InputError
from feduplink.federated.tasks.task import Task
from feduplink.registry import TASKS

#: Optional keyword arguments of functions that make tasks.
_OPTIONS = ("partition", "directory")


def load_task(
    name: str, *, workers: int, partition: str | None = None, directory: Path | None = None
) -> Task:
    """Make a task by name.

    The name refers to a :class:`Task`, or to a function that returns one and has the keyword
    argument ``workers`` and optionally ``partition`` and ``directory``.

    Args:
        name: registered name, name of an entry point in the group ``feduplink.tasks``, or
            ``package.module:name``.
        workers: number of workers L.
        partition: partition of the data between the workers; None uses the task's default.
        directory: directory of the data sets; None uses that of ``FEDUPLINK_DATA``.

    Returns:
        The task.

    Raises:
        InputError: if the task is unknown, does not accept an option, or needs missing data.

    >>> load_task("digits", workers=2).weights
    39760
    """
    accepted = task_options(name)
    given = {"partition": partition, "directory": directory}
    for option, value in given.items():
        if value is not None and option not in accepted:
            raise InputError(
                f"{option}: {str(value)!r} is not accepted; the task {name} has no option {option}."
            )
    found: Any = TASKS.find(name)
    if not isinstance(found, Task):
        options = {option: value for option, value in given.items() if value is not None}
        found = found(workers=workers, **options)
    if not isinstance(found, Task):
        raise InputError(f"task: {name} returned a {type(found).__name__}; accepted: a Task.")
    return found


def task_options(name: str) -> Mapping[str, Any]:
    """Find which of the options ``partition`` and ``directory`` a task accepts.

    Args:
        name: name of the task, as in :func:`load_task`.

    Returns:
        Default values by option.

    Raises:
        InputError: if the task is unknown or is not a task.

    >>> task_options("digits")
    {'partition': 'iid'}
    """
    found: Any = TASKS.find(name)
    if isinstance(found, Task):
        return {}
    try:
        signature = inspect.signature(found)
        signature.bind(workers=1)
    except TypeError:
        raise InputError(
            f"task: {name} cannot be called with workers=N; accepted: a Task, or a function with "
            "the keyword workers that returns one."
        ) from None
    parameters = signature.parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return {
        option: parameters[option].default if option in parameters else None
        for option in _OPTIONS
        if takes_any or option in parameters
    }
