"""Federated learning tasks of the package, and lookup of tasks by name."""

from feduplink.federated.tasks.loading import load_task, task_options

__all__ = ["load_task", "task_options"]
