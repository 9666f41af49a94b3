from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from feduplink import Scenario
from feduplink.federated import (
    AdamState,
    Examples,
    FederatedData,
    Federation,
    FederationSettings,
    LocalWork,
    Task,
    clip_each_,
    load_task,
    optimiser,
)
from feduplink.federated.models import ReviewClassifier
from feduplink.policies import Ideal
from feduplink.randomness import stream_seed
from handwritten_federation import HandwrittenFederation
from plain_federation import PlainFederation

from .conftest import SIZES, blob_task, data_of, mean_loss

ROUNDS = 20


def last_errors(federation: Federation) -> list[float]:
    """Of every run of the only policy."""
    (runs,) = federation.history().policies.values()
    return [run.error[-1] for run in runs]


def compare_with_plain_loop(task, workers: int, tolerance: float) -> None:
    settings = FederationSettings(runs=2, rounds=ROUNDS)
    federation = Federation(task, {"ideal": Ideal(Scenario())}, Scenario(workers=workers), settings)
    plain = []
    for run in range(2):
        torch.manual_seed(stream_seed(0, "model", run))
        plain.append(PlainFederation(task, data_of(task, run), task.model()))
    for number in range(ROUNDS):
        for run in range(2):
            plain[run].train(federation.round_batches(run, number))
        federation.run_round(number, at_once=2)
        errors = last_errors(federation)
        assert errors == pytest.approx([loop.error() for loop in plain], abs=tolerance)
    for run in range(2):
        for name, expected in plain[run].weights().items():
            assert (federation.state.weights[name][run] - expected).abs().max() < tolerance


def test_digits_equal_the_plain_loop_after_twenty_rounds():
    compare_with_plain_loop(load_task("digits", workers=8), 8, 1e-5)


def test_digits_equal_the_round_written_by_hand():
    """So that the benchmark compares the engine with something that does the same."""
    runs = 3
    federation = Federation(
        load_task("digits", workers=8),
        {"ideal": Ideal(Scenario())},
        Scenario(workers=8),
        FederationSettings(runs=runs, rounds=5),
    )
    hand = HandwrittenFederation(
        federation.task.work,
        [data_of(federation.task, run) for run in range(runs)],
        federation.state.weights,
        at_once=2,
    )
    for number in range(federation.rounds):
        errors, _ = hand.round([federation.round_batches(run, number) for run in range(runs)])
        federation.run_round(number, at_once=2)
        assert errors.tolist() == pytest.approx(last_errors(federation), abs=1e-9)
    for found, expected in zip(hand.models, federation.state.weights.values(), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "work",
    [
        LocalWork(batch_size=8, learning_rate=8e-4),
        LocalWork(batch_size=5, batches=4, epsilon=1e-5, weight_decay=1e-2, clip_norm=0.1),
    ],
    ids=["a pass over unequal data", "decay and tight clipping"],
)
def test_vectorised_training_of_any_module_equals_the_loop(work: LocalWork):
    compare_with_plain_loop(blob_task(work), len(SIZES), 1e-5)


def test_every_model_is_clipped_as_pytorch_clips_one():
    weight = torch.tensor([[[3.0, 0.0]], [[0.3, 0.1]], [[0.0, 0.0]]])
    bias = torch.tensor([[4.0], [0.4], [0.0]])
    clipped = (weight.clone(), bias.clone())
    clip_each_(clipped, 1.0)
    for model in range(3):
        parameters = [nn.Parameter(torch.zeros(1, 2)), nn.Parameter(torch.zeros(1))]
        parameters[0].grad, parameters[1].grad = weight[model].clone(), bias[model].clone()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        for parameter, gradient in zip(parameters, clipped, strict=True):
            torch.testing.assert_close(gradient[model], parameter.grad)


def test_workers_keep_their_own_adam_between_rounds():
    task = blob_task(LocalWork(batch_size=8))
    federation = Federation(
        task, {"ideal": Ideal(Scenario())}, Scenario(workers=3), FederationSettings(rounds=3)
    )
    for number in range(3):
        federation.run_round(number, at_once=1)
    steps_per_round = [-(-size // 8) for size in SIZES]
    assert federation.state.adam.steps[0].tolist() == [3 * steps for steps in steps_per_round]


def test_results_do_not_depend_on_the_batch_of_simulations():
    results = []
    for at_once in (1, 2, 100):
        task = replace(blob_task(LocalWork(batch_size=8)), metric=mean_loss)
        settings = FederationSettings(runs=3, rounds=4)
        policies = {"a": Ideal(Scenario()), "b": Ideal(Scenario())}
        federation = Federation(task, policies, Scenario(workers=3), settings)
        for number in range(4):
            federation.run_round(number, at_once)
        history = federation.history()
        results.append([run.error for runs in history.policies.values() for run in runs])
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-6)
    torch.testing.assert_close(results[0], results[2], rtol=0, atol=1e-6)


class Unsteady(nn.Module):
    """A network with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 6), nn.Dropout(0.5), nn.Linear(6, 3))

    def forward(self, inputs):
        return self.layers(inputs)


def test_frozen_weights_are_neither_trained_nor_sent():
    def network() -> nn.Module:
        model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 3))
        model[0].requires_grad_(False)
        return model

    task = blob_task(LocalWork(batch_size=8), network)
    federation = Federation(
        task, {"ideal": Ideal(Scenario())}, Scenario(workers=3), FederationSettings(rounds=2)
    )
    frozen = federation.stack.module[0].weight.clone()
    errors = federation.run().policies["ideal"][0]
    assert federation.stack.module[0].weight.equal(frozen)
    assert set(federation.state.weights) == {"2.weight", "2.bias"}
    assert errors.sent_bytes[0] == 3 * (32 * 21 + 32) / 8


def test_dropout_is_reproducible_and_off_in_evaluation():
    task = replace(blob_task(LocalWork(batch_size=8), Unsteady), metric=mean_loss)
    test = data_of(task).test
    runs = []
    for _ in range(2):
        federation = Federation(
            task, {"ideal": Ideal(Scenario())}, Scenario(workers=3), FederationSettings(rounds=2)
        )
        runs.append(federation.run())
        outputs = functional_call(Unsteady().eval(), federation.state.model(0), test.inputs)
        expected = mean_loss(outputs, test.targets).item()
        assert last_errors(federation) == pytest.approx([expected], rel=1e-6)
    assert runs[0] == runs[1]


def review_task() -> Task:
    """Two workers with reviews of 1 to 40 words, and a network without dropout."""
    rng = np.random.default_rng(0)

    def reviews(count: int) -> Examples:
        lengths = torch.from_numpy(rng.integers(1, 41, count))
        tokens = torch.from_numpy(rng.integers(2, 20, (count, 40))).short()
        tokens[torch.arange(40) >= lengths[:, None]] = 1
        return Examples(tokens, (tokens[:, 0] > 10).float(), lengths)

    data = FederatedData.from_workers([reviews(9), reviews(6)], reviews(10))
    torch.manual_seed(0)
    module = ReviewClassifier(torch.randn(20, 4), hidden=3, dropout=0.0)
    return Task(
        name="reviews",
        model=lambda: copy.deepcopy(module),
        data=lambda _rng: data,
        loss=nn.BCEWithLogitsLoss(reduction="none"),
        metric=lambda scores, labels: ((scores > 0) != (labels > 0.5)).float().mean(),
        work=LocalWork(batch_size=4, learning_rate=2e-3, clip_norm=5.0, epsilon=1e-5),
    )


@pytest.mark.parametrize("max_load", [math.inf, 100, 0], ids=["together", "in parts", "one by one"])
def test_batched_training_of_reviews_equals_single_training(max_load: float):
    task = review_task()
    federation = Federation(
        task, {"ideal": Ideal(Scenario())}, Scenario(workers=2), FederationSettings(rounds=5)
    )
    plain = PlainFederation(task, data_of(task), task.model())
    for number in range(5):
        plain.train(federation.round_batches(0, number))
        federation.run_round(number, at_once=1, max_load=max_load)
        assert last_errors(federation) == pytest.approx([plain.error()])
    for name, expected in plain.weights().items():
        torch.testing.assert_close(federation.state.weights[name][0], expected, rtol=0, atol=1e-5)


SIMULATIONS, WORKERS = 2, 3
SHAPES = {"weight": (4, 2), "bias": (4,)}
WORK = LocalWork(batch_size=1, learning_rate=0.1, epsilon=1e-6, weight_decay=0.01)


@pytest.mark.parametrize(
    "minibatches",
    [[3] * SIMULATIONS * WORKERS, [3, 1, 0, 2, 3, 3]],
    ids=["in step", "out of step"],
)
def test_every_model_is_updated_as_by_pytorchs_adam(minibatches: list[int]):
    torch.manual_seed(0)
    models = {name: torch.randn(SIMULATIONS, *shape) for name, shape in SHAPES.items()}
    state = AdamState.fresh(models, WORKERS)
    weights = {name: model.repeat_interleave(WORKERS, dim=0) for name, model in models.items()}
    alone = [
        [weight[row].clone().requires_grad_() for weight in weights.values()]
        for row in range(SIMULATIONS * WORKERS)
    ]
    optimisers = [torch.optim.Adam(model, lr=0.1, eps=1e-6, weight_decay=0.01) for model in alone]
    for _ in range(2):  # rounds: the moments stay
        adam = optimiser(weights, state, minibatches, WORK)
        for step in range(max(minibatches)):
            # The first as backpropagation through x @ w.T leaves it: transposed in memory.
            gradients = [torch.randn(6, 2, 4).mT, torch.randn(6, 4)]
            for row, (model, optimizer) in enumerate(zip(alone, optimisers, strict=True)):
                if step < minibatches[row]:
                    for parameter, gradient in zip(model, gradients, strict=True):
                        parameter.grad = gradient[row].clone()
                    optimizer.step()
                else:  # nothing to learn from counts for nothing
                    for gradient in gradients:
                        gradient[row] = 0
            adam.update(gradients, step)
    assert state.steps.flatten().tolist() == [2 * count for count in minibatches]
    for row, model in enumerate(alone):
        for weight, parameter in zip(weights.values(), model, strict=True):
            torch.testing.assert_close(weight[row], parameter.detach(), rtol=0, atol=1e-6)
