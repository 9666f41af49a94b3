from __future__ import annotations

import math

import pytest
import torch
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from feduplink.federated.data.reviews import PADDING
from feduplink.federated.models import (
    ModelStack,
    Perceptron,
    ReviewClassifier,
    Weights,
    nguyen_widrow_,
)
from feduplink.federated.models.lstm import Packing
from feduplink.federated.models.stacked import stacked, vectorised


def perturbed(stack: ModelStack, copies: int) -> Weights:
    """Copies of the stack's model, each a little off in its own way."""
    return {
        name: weights + 0.3 * torch.randn(copies, *weights.shape).to(weights)
        for name, weights in stack.initial().items()
    }


def test_the_perceptron_computes_its_copies_as_vmap_does():
    torch.manual_seed(0)
    stack = ModelStack(Perceptron(4, 5, 3))
    weights = perturbed(stack, 6)
    inputs = torch.randn(6, 7, 4)
    expected = vectorised(stack.module)(weights, inputs)
    torch.testing.assert_close(stack(weights, inputs), expected)


def test_the_perceptrons_copies_may_share_their_examples():
    torch.manual_seed(0)
    stack = ModelStack(Perceptron(4, 5, 3))
    weights = perturbed(stack, 6)
    shared = torch.randn(7, 4).expand(6, 7, 4)
    torch.testing.assert_close(stack(weights, shared), stack(weights, shared.contiguous()))


def test_the_initial_weights_are_a_copy_of_the_modules():
    stack = ModelStack(Perceptron(2, 3, 1))
    assert stack.weights_per_model == 3 * 2 + 3 + 3 + 1
    initial = stack.initial()
    for name, parameter in stack.module.named_parameters():
        assert initial[name].equal(parameter)
        parameter.data += 1
        assert not initial[name].equal(parameter)


def test_nguyen_widrow_directions_and_biases():
    torch.manual_seed(0)
    network = nguyen_widrow_(Perceptron(784, 50, 10))
    hidden, output = 2 * 0.7 * 50 ** (1 / 784), 0.7 * 10 ** (1 / 50)
    torch.testing.assert_close(network.hidden.weight.norm(dim=1), torch.full((50,), hidden))
    torch.testing.assert_close(network.output.weight.norm(dim=1), torch.full((10,), output))
    spread = network.hidden.bias.detach().abs().sort().values
    expected = (hidden * torch.linspace(-1, 1, 50)).abs().sort().values
    torch.testing.assert_close(spread, expected)
    signs = network.hidden.bias.sign() * network.hidden.weight[:, 0].sign()
    assert signs[:25].eq(-1).all()
    assert signs[25:].eq(1).all()


def test_the_review_classifier_has_the_papers_weights():
    network = ReviewClassifier(torch.zeros(5002, 50))
    assert ModelStack(network).weights_per_model == 829_941
    parts = [network.embedding, network.lstm, network.score]
    assert [sum(p.numel() for p in part.parameters()) for part in parts] == [250_100, 579_584, 257]


def ragged(longest: list[int], batch: int, device: str = "cpu") -> torch.Tensor:
    """Reviews of at most ``longest[r]`` words for every copy r, in any order."""
    tokens = torch.full((len(longest), batch, max(longest)), PADDING, device=device)
    for copy, most in enumerate(longest):
        lengths = [most, *torch.randint(1, most + 1, (batch - 1,)).tolist()]
        for review, place in enumerate(torch.randperm(batch).tolist()):
            tokens[copy, place, : lengths[review]] = torch.randint(2, 30, (lengths[review],))
    return tokens


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(
    "longest", [[9, 9, 9], [2, 70, 33, 1, 33], [65, 64, 32, 31]], ids=["alike", "ragged", "falling"]
)
def test_the_stacked_lstm_and_its_gradient_equal_pytorchs(
    longest: list[int], layers: int, device: str
):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    torch.manual_seed(layers)
    copies, batch = len(longest), 4
    network = ReviewClassifier(torch.randn(30, 6), hidden=5, layers=layers).double().eval()
    stack = ModelStack(network.to(device))
    weights = {name: w.requires_grad_() for name, w in perturbed(stack, copies).items()}
    tokens = ragged(longest, batch, device)
    direction = torch.randn(copies, batch).double().to(device)

    scores = stack(weights, tokens)
    parameters = tuple(weights.values())
    gradients = torch.autograd.grad((scores * direction).sum(), parameters)
    with torch.backends.cudnn.flags(enabled=False):  # cuDNN has no gradient in evaluation mode
        one_by_one = torch.stack(
            [
                functional_call(network, {n: w[i] for n, w in weights.items()}, tokens[i])
                for i in range(copies)
            ]
        )
        expected = torch.autograd.grad((one_by_one * direction).sum(), parameters)
    torch.testing.assert_close(scores, one_by_one, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients, expected, rtol=1e-10, atol=1e-12)


def test_a_copy_whose_reviews_are_short_costs_no_more_than_alone():
    network = ReviewClassifier(torch.randn(30, 6), hidden=5, layers=2)
    stack = ModelStack(network)

    def flops(longest: list[int]) -> int:
        weights = {name: w.requires_grad_() for name, w in perturbed(stack, len(longest)).items()}
        with FlopCounterMode(display=False) as counter:
            stack(weights, ragged(longest, 2)).sum().backward()
        return counter.get_total_flops()

    assert 0 < flops([3, 40, 7]) <= sum(flops([length]) for length in (3, 40, 7))


def test_tokens_may_be_of_any_whole_type():
    torch.manual_seed(0)
    stack = ModelStack(ReviewClassifier(torch.randn(30, 6), hidden=5).eval())
    weights, tokens = perturbed(stack, 2), ragged([4, 6], 3)
    torch.testing.assert_close(stack(weights, tokens.short()), stack(weights, tokens))
    torch.testing.assert_close(stack.module(tokens[0].short()), stack.module(tokens[0]))


def test_padding_does_not_affect_scores():
    torch.manual_seed(0)
    network = ReviewClassifier(torch.randn(30, 6), hidden=5).eval()
    stack = ModelStack(network)
    short = torch.tensor([[[4, 5, 6]]])
    long = torch.tensor([[[4, 5, 6, PADDING, PADDING]]])
    weights = stacked([stack.initial()])
    torch.testing.assert_close(stack(weights, short), stack(weights, long))


def test_dropout_differs_between_copies():
    torch.manual_seed(0)
    network = ReviewClassifier(torch.randn(30, 6), hidden=5).train()
    stack = ModelStack(network)
    weights = stacked([stack.initial()] * 50)
    scores = stack(weights, torch.full((50, 1, 4), 7))
    assert len({round(score, 6) for score in scores.flatten().tolist()}) > 25
    assert not math.isnan(scores.sum().item())


CPU = torch.device("cpu")


@pytest.mark.parametrize("lengths", [[1], [5, 5, 5], [100, 33, 32, 32, 1], [3, 2, 1]])
def test_packing_assigns_distinct_places(lengths: list[int]):
    packing = Packing(lengths, CPU)
    expected = {(m, t) for m, length in enumerate(lengths) for t in range(length)}
    found = list(zip(packing.sequence.tolist(), packing.time.tolist(), strict=True))
    assert len(found) == sum(lengths)
    assert set(found) == expected
    places = packing.place(packing.sequence, packing.time)
    assert places.tolist() == list(range(sum(lengths)))


def test_stretches_contain_the_running_sequences():
    packing = Packing([40, 3, 3], CPU)
    pairs = torch.stack((packing.sequence, packing.time), dim=-1)
    seen = []
    for stretch in packing.stretches:
        part = stretch.view_of(pairs)
        assert part.shape == (stretch.running, stretch.duration, 2)
        assert part[:, :, 0].eq(torch.arange(stretch.running)[:, None]).all()
        assert part[:, :, 1].eq(stretch.start + torch.arange(stretch.duration)).all()
        seen.append((stretch.start, stretch.duration, stretch.running))
    assert seen == [(0, 3, 3), (3, 29, 1), (32, 8, 1)]
