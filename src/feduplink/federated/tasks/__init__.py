"""The shipped tasks, one module each, and how tasks are found by name."""

from feduplink.federated.tasks.loading import load_task, task_options

__all__ = ["load_task", "task_options"]
