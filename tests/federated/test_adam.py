from __future__ import annotations

import pytest
import torch

from feduplink.federated import AdamState, LocalWork, optimiser

SIMULATIONS, WORKERS = 2, 3
SHAPES = {"weight": (4, 2), "bias": (4,)}
WORK = LocalWork(batch_size=1, learning_rate=0.1, epsilon=1e-6, weight_decay=0.01)


@pytest.mark.parametrize(
    "minibatches",
    [[3] * SIMULATIONS * WORKERS, [3, 1, 0, 2, 3, 3]],
    ids=["in step", "out of step"],
)
def test_every_model_moves_as_under_pytorchs_adam(minibatches: list[int]):
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
