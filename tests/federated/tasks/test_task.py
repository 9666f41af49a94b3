"""Models, losses and metrics that cannot be federated are refused before the first round."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from federated.conftest import blob_task, data_of
from feduplink import InputError
from feduplink.federated import LocalWork, Task
from feduplink.federated.models import ModelStack, ReviewClassifier
from feduplink.federated.tasks.task import check_task


class Recurrent(nn.Module):
    """Reads a point as a sequence of two numbers."""

    def __init__(self, layer: type[nn.Module]) -> None:
        super().__init__()
        self.layer, self.score = layer(1, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, points):
        states, _ = self.layer(points[..., None])
        return self.score(states[:, -1])


class Counts(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, points):
        self.calls += 1
        return self.layer(points)


class Branches(nn.Module):
    """Decides in Python by a number that differs between copies."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, points):
        outputs = self.layer(points)
        return outputs if outputs.sum() > 0 else -outputs


def task_with(model=None, **changes) -> Task:
    return replace(blob_task(LocalWork(batch_size=5), model), **changes)


def check(task: Task) -> None:
    check_task(task, ModelStack(task.model()), data_of(task).pool)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)),
            r"model: BatchNorm1d changes its buffers in training \(1.running_mean, .* accepted: "
            r"layers without running statistics, such as nn.GroupNorm or nn.LayerNorm\.$",
        ),
        (Counts, r"model: Counts changes its buffers in training \(calls\)"),
        (lambda: Recurrent(nn.LSTM), "model: Recurrent fails for many workers at once"),
        (lambda: Recurrent(nn.GRU), r"fails .* a method stacked_forward\(weights, inputs\)"),
        (lambda: Recurrent(nn.RNN), "model: Recurrent fails for many workers at once"),
        (Branches, r"model: Branches fails for many workers at once .* torch.func.vmap"),
        (lambda: nn.Linear(7, 3), r"model: Linear fails on inputs of shape \(3, 2\) \("),
        (
            lambda: nn.Sequential(nn.Linear(2, 3), nn.Flatten(0)),
            "not return one output per example",
        ),
        (nn.Identity, "model: Identity has no trainable weights"),
    ],
)
def test_models_that_cannot_be_federated_are_refused(model, sentence: str):
    with pytest.raises(InputError, match=sentence) as refusal:
        check(task_with(model))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"loss": nn.CrossEntropyLoss()},
            r"^loss: shape \(\) is returned for 6 examples; accepted: one value per example, "
            r"\(B,\), as with reduction='none'\.$",
        ),
        (
            {"loss": lambda out, y: (out - y[:, None]).square()},
            r"^loss: shape \(6, 3\) is returned for 6 examples; accepted: one value per example",
        ),
        ({"loss": lambda out, y: out @ y}, r"^loss: it fails on outputs of shape \(6, 3\) and ta"),
        ({"loss": lambda out, _y: out.detach().sum(-1)}, "^loss: it has no gradient"),
        (
            {"metric": lambda out, _y: out},
            r"^metric: shape \(6, 3\) is returned; accepted: one number",
        ),
        ({"metric": lambda out, y: out @ y}, r"^metric: it fails on outputs of shape \(6, 3\)"),
    ],
)
def test_losses_and_metrics_that_cannot_be_used_are_refused(changes: dict, sentence: str):
    with pytest.raises(InputError, match=sentence) as refusal:
        check(task_with(**changes))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "model",
    [
        lambda: nn.Sequential(nn.Linear(2, 4), nn.GroupNorm(2, 4), nn.Dropout(), nn.Linear(4, 3)),
        lambda: nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False), nn.Linear(2, 3)),
        lambda: nn.Sequential(nn.Linear(2, 3).requires_grad_(False), nn.Linear(3, 3)),
    ],
    ids=["group normalisation", "statistics of the batch", "frozen weights"],
)
def test_valid_tasks_are_accepted_and_unchanged(model):
    task = task_with(model)
    stack = ModelStack(task.model())
    before = copy.deepcopy(stack.module.state_dict())
    generator = torch.get_rng_state()
    check_task(task, stack, data_of(task).pool)
    assert torch.get_rng_state().equal(generator)
    assert all(values.equal(before[name]) for name, values in stack.module.state_dict().items())


def test_recurrent_module_with_stacked_forward_is_accepted_unless_weights_are_frozen():
    def reviews(frozen: bool) -> nn.Module:
        module = ReviewClassifier(torch.randn(9, 4), hidden=3)
        module.embedding.requires_grad_(not frozen)
        return module

    def scores(frozen: bool) -> Task:
        return task_with(
            lambda: reviews(frozen),
            loss=lambda out, _y: out.square(),
            metric=lambda out, _y: out.mean(),
            data=lambda rng: data_of(task_with()),
        )

    tokens = data_of(task_with()).pool
    tokens = replace(tokens, inputs=torch.full((len(tokens), 4), 5))
    check_task(scores(False), ModelStack(reviews(False)), tokens)
    with pytest.raises(InputError, match="model: ReviewClassifier fails for many workers at once"):
        check_task(scores(True), ModelStack(reviews(True)), tokens)
