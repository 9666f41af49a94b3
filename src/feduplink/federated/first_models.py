"""The global models before the first round."""

from __future__ import annotations

import torch

from feduplink.federated.models.stacked import ModelStack, Weights, stacked
from feduplink.federated.task import Task
from feduplink.randomness import stream_seed


def first_models(
    task: Task, runs: int, policies: int, seed: int, device: torch.device
) -> tuple[ModelStack, Weights]:
    """The model, and its first weights, (policies · runs, *shape) per parameter.

    Those of a run are alike for all policies.
    """
    starts = []
    for run in range(runs):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model", run))
            stack = ModelStack(task.model())
        starts.append(stack.initial())
    stack.module.to(device)
    weights = stacked(starts * policies)
    return stack, {name: weight.to(device) for name, weight in weights.items()}
