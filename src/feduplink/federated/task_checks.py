"""What a task of the user's own must be, tried on a few examples before the first round.

Without this a model that cannot be vectorised, or a loss that is a mean already, ends in an error
from deep inside PyTorch, after minutes of preparation.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from feduplink.errors import InputError
from feduplink.federated.models.stacked import ModelStack, Weights, stacked
from feduplink.federated.task import Examples, Task

#: Copies of the model and examples per copy that are tried.
_COPIES, _EXAMPLES = 2, 3
#: Layers for which PyTorch has no rule to compute many copies.
_RECURRENT = (nn.RNNBase, nn.LSTMCell)


def check_task(task: Task, stack: ModelStack, pool: Examples) -> None:
    """Refuse, in one sentence, a model, loss or metric that a federation cannot use.

    Tries one training step of two copies of the model on three examples of the workers' ``pool``.
    Nothing changes, also not the random numbers that follow.
    """
    inputs, targets = _few(pool)
    device = inputs.device
    # On a copy: running statistics must not move.
    tried = ModelStack(copy.deepcopy(stack.module).train())
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        weights = stacked([tried.initial()] * _COPIES)
        weights = {name: weight.requires_grad_() for name, weight in weights.items()}
        outputs = _outputs(tried, weights, inputs).flatten(0, 1)
        targets = targets.repeat(_COPIES, *[1] * (targets.ndim - 1))
        _check_loss(task, outputs, targets, tuple(weights.values()))
        _check_metric(task, outputs.detach(), targets)


def _few(pool: Examples) -> tuple[Tensor, Tensor]:
    """Inputs and targets of the first examples; of sequences, of the shortest, which cost least."""
    if pool.lengths is None:
        return pool.inputs[:_EXAMPLES], pool.targets[:_EXAMPLES]
    short = pool.lengths.argsort(stable=True)[:_EXAMPLES]
    rows, longest = short.to(pool.inputs.device), int(pool.lengths[short].max())
    return pool.inputs[rows, :longest], pool.targets[rows]


def _outputs(stack: ModelStack, weights: Weights, inputs: Tensor) -> Tensor:
    """Of all copies, (copies, examples, ...), if the module can be computed as many."""
    module, name = stack.module, type(stack.module).__name__
    if not weights:
        raise InputError(
            f"model: {name} has no weights to train; accepted: a module with parameters that "
            "require a gradient."
        )
    before = {buffer: values.clone() for buffer, values in module.named_buffers()}
    if stack.is_vectorised:  # first one copy alone: what fails there is not about many copies
        shape = tuple(inputs.shape)
        with _refused(f"model: {name} fails on inputs of shape {shape}", "the task's inputs"):
            module(inputs)
        _check_buffers(module, before)
    with _refused(*_unstackable(module)):
        outputs = stack(weights, inputs.expand(_COPIES, *inputs.shape))
    _check_buffers(module, before)
    if not isinstance(outputs, Tensor) or outputs.shape[:2] != (_COPIES, len(inputs)):
        raise InputError(
            f"model: {name} does not return one output per example; accepted: a tensor (B, ...) "
            "for inputs (B, ...)."
        )
    return outputs


def _check_buffers(module: nn.Module, before: Weights) -> None:
    changed = [
        name
        for name, values in module.named_buffers()
        if name not in before or not values.equal(before[name])
    ]
    if changed:
        layer = module.get_submodule(changed[0].rpartition(".")[0])
        raise InputError(
            f"model: {type(layer).__name__} changes its buffers in training "
            f"({', '.join(changed)}), and no worker sends those; accepted: layers without running "
            "statistics, such as nn.GroupNorm or nn.LayerNorm."
        )


def _unstackable(module: nn.Module) -> tuple[str, str]:
    """What to say of a module that fails for many copies, and what is accepted instead."""
    accepted = (
        "layers that torch.func.vmap takes, or a module with a method stacked_forward(weights, "
        "inputs) for many copies"
    )
    recurrent = [layer for layer in module.modules() if isinstance(layer, _RECURRENT)]
    if recurrent:
        name = type(recurrent[0]).__name__
        return f"model: nn.{name} cannot be computed for many workers at once", accepted
    return f"model: {type(module).__name__} fails for many workers at once", accepted


def _check_loss(task: Task, outputs: Tensor, targets: Tensor, weights: tuple[Tensor, ...]) -> None:
    shapes = f"outputs of shape {tuple(outputs.shape)} and targets of shape {tuple(targets.shape)}"
    accepted = "one value per example, (B,), as with reduction='none'"
    with _refused(f"loss: it fails on {shapes}", accepted):
        losses = task.loss(outputs, targets)
    if not isinstance(losses, Tensor) or losses.shape != (len(outputs),):
        found = torch.as_tensor(losses).shape
        what = f"of shape {tuple(found)}" if len(found) else "one value"
        raise InputError(f"loss: {what} for {len(outputs)} examples; accepted: {accepted}.")
    with _refused("loss: it has no gradient", "a function that PyTorch differentiates"):
        torch.autograd.grad(losses.sum(), weights, allow_unused=True)


def _check_metric(task: Task, outputs: Tensor, targets: Tensor) -> None:
    accepted = "one number, lower is better"
    with _refused(f"metric: it fails on outputs of shape {tuple(outputs.shape)}", accepted):
        found = torch.as_tensor(task.metric(outputs, targets))
    if found.numel() != 1:
        raise InputError(f"metric: of shape {tuple(found.shape)}; accepted: {accepted}.")


@contextlib.contextmanager
def _refused(what: str, accepted: str) -> Iterator[None]:
    """Whatever the user's own code raises becomes one sentence."""
    try:
        yield
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[0].removesuffix(".")
        raise InputError(f"{what} ({reason}); accepted: {accepted}.") from error
