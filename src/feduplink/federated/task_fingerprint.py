"""What tells the models, losses and metrics of two tasks apart that go by the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from feduplink.federated.models.stacked import ModelStack, Weights
from feduplink.federated.task import Examples, Task
from feduplink.object_identity import qualified_name
from feduplink.tensorfile import checksum

#: Examples that loss and metric are tried on.
_PROBED = 64
#: So many at once: a metric is one number of many examples, and several numbers tell more.
_AT_ONCE = 8


def task_fingerprint(
    task: Task, stack: ModelStack, first: Weights, test: Examples
) -> dict[str, dict[str, Any]]:
    """The ``model``, ``loss`` and ``metric`` of a comparison, as a checkpoint's header keeps them.

    Loss and metric are known by their name and by their values at outputs that do not depend on
    the model's arithmetic, which differs between devices; targets are those of ``test``.

    Args:
        task: gives loss and metric.
        stack: the model.
        first: the first weights of the first run, (1, *shape) per parameter.
        test: examples for the model to take.
    """
    inputs, targets = test.inputs[:_PROBED], test.targets[:_PROBED]
    stack.module.eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        shape = stack(first, inputs[None]).shape[1:]
        outputs = torch.linspace(-1.0, 1.0, shape.numel(), device=inputs.device)
        # Steps of a stride prime to most sizes: neighbours differ, and no class always wins.
        outputs = outputs[torch.arange(len(outputs)) * 7919 % len(outputs)].view(shape)
        return {
            "model": _model(stack, first),
            "loss": _function(task.loss, outputs, targets),
            "metric": _function(task.metric, outputs, targets),
        }


def _model(stack: ModelStack, first: Weights) -> dict[str, Any]:
    one = {name: weights[0] for name, weights in first.items()}
    return {
        "class": qualified_name(type(stack.module)),
        "layers": {
            name: qualified_name(type(layer)) for name, layer in stack.module.named_modules()
        },
        "shapes": {name: list(weights.shape) for name, weights in one.items()},
        "first weights": checksum({**stack.module.state_dict(), **one}, {}),
    }


def _function(
    function: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, targets: Tensor
) -> dict[str, Any]:
    some = zip(torch.split(outputs, _AT_ONCE), torch.split(targets, _AT_ONCE), strict=True)
    values = torch.cat([torch.as_tensor(function(*pair)).flatten() for pair in some]).tolist()
    return {"function": qualified_name(function), "values": [f"{value:.4g}" for value in values]}
