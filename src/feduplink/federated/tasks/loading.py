"""Tasks by name: shipped, of installed packages, or ``package.module:function``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from feduplink.errors import InputError
from feduplink.federated.tasks.task import Task
from feduplink.registry import TASKS

#: Optional keywords of the functions that make tasks.
_OPTIONS = ("partition", "directory")


def load_task(
    name: str, *, workers: int, partition: str | None = None, directory: Path | None = None
) -> Task:
    """Make the task of this name.

    A name denotes a :class:`Task`, or a function that returns one, with the keyword ``workers`` and
    optionally ``partition`` and ``directory``.

    Args:
        name: registered, of an entry point in the group ``feduplink.tasks``, or
            ``package.module:function``.
        workers: L; of a task that is not made by a function, :func:`federate` checks it.
        partition: of the data between the workers; None: the task's default.
        directory: of the data sets; None: that of ``FEDUPLINK_DATA``.

    Raises:
        InputError: if there is no such task, or it does not take an option.
    """
    accepted = task_options(name)
    given = {"partition": partition, "directory": directory}
    for option, value in given.items():
        if value is not None and option not in accepted:
            raise InputError(
                f"{option}: {str(value)!r} is not accepted; accepted with the task {name}: no "
                f"{option}."
            )
    found: Any = TASKS.find(name)
    if not isinstance(found, Task):
        options = {option: value for option, value in given.items() if value is not None}
        found = found(workers=workers, **options)
    if not isinstance(found, Task):
        raise InputError(f"task: {name} returned a {type(found).__name__}; accepted: a Task.")
    return found


def task_options(name: str) -> Mapping[str, Any]:
    """Return the options ``partition`` and ``directory`` that a task takes, with their defaults."""
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
