"""Tasks by name: shipped ones, those of installed packages, and ``package.module:function``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from feduplink.errors import InputError
from feduplink.federated.tasks.task import Task
from feduplink.registry import TASKS

#: What a task may be asked for beside the number of workers.
_OPTIONS = ("partition", "directory")


def load_task(
    name: str, *, workers: int, partition: str | None = None, directory: Path | None = None
) -> Task:
    """The task of this name for so many workers.

    A name stands for a function with the keyword ``workers``, and ``partition`` and ``directory``
    if it has use for them, that returns a :class:`Task`; or for a task itself, whose number of
    workers :func:`federate` compares with the scenario's.

    Args:
        name: registered, of an entry point in the group ``feduplink.tasks``, or
            ``package.module:function``.
        workers: L.
        partition: how data are spread over the workers; None is the task's default.
        directory: of the data sets; None looks at ``FEDUPLINK_DATA``.
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
    """Which of ``partition`` and ``directory`` a task takes, with their defaults."""
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
