from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from feduplink import GraphPolicy, PerceptronPolicy, Scenario
from feduplink.policies import DenseGraphConvolution, normalised_adjacency


def sparse_twin(dense: DenseGraphConvolution) -> GCNConv:
    twin = GCNConv(*dense.theta.shape, add_self_loops=False, normalize=True)
    with torch.no_grad():
        twin.lin.weight.copy_(dense.theta.T)
        twin.bias.copy_(dense.bias)
    return twin


def gradients(output: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(
        (output * torch.arange(output.numel()).view_as(output)).sum(), inputs
    )


@pytest.mark.parametrize(("fan_in", "fan_out"), [(1, 16), (5, 5), (64, 16), (2, 1)])
def test_dense_convolution_equals_pytorch_geometric(fan_in, fan_out, default_csi, generator):
    """On the graph whose edges i → j, self loops included, carry H_ij."""
    workers = 8
    csi = default_csi[:1].clone().requires_grad_()
    features = torch.randn(1, workers, fan_in, generator=generator, requires_grad=True)
    dense = DenseGraphConvolution(fan_in, fan_out)
    torch.nn.init.normal_(dense.bias, generator=generator)
    sparse = sparse_twin(dense)
    edges = torch.cartesian_prod(torch.arange(workers), torch.arange(workers)).T

    ours = dense(features, normalised_adjacency(csi))[0]
    theirs = sparse(features[0], edges, csi.flatten())

    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    our_gradients = gradients(ours, (features, dense.theta, dense.bias, csi))
    their_gradients = gradients(theirs, (features, sparse.lin.weight, sparse.bias, csi))
    for name, our, their in zip(
        ("features", "theta", "bias", "csi"), our_gradients, their_gradients, strict=True
    ):
        their = their.T if name == "theta" else their
        scale = their.abs().max().item()
        torch.testing.assert_close(our, their, rtol=1e-5, atol=1e-5 * scale, msg=name)


def powers_by_equation(policy: GraphPolicy, csi: Tensor) -> Tensor:
    adjacency = normalised_adjacency(csi)
    features = torch.full((*csi.shape[:-1], 1), policy.scenario.max_power, dtype=csi.dtype)
    *hidden, last = policy.layers
    for layer in hidden:
        features = torch.nn.functional.elu(adjacency @ features @ layer.theta + layer.bias)
    logits = adjacency @ features @ last.theta + last.bias
    return policy.scenario.max_power * torch.sigmoid(logits[..., 0])


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-14)], ids=str
)
def test_powers_and_gradients_follow_the_equation(dtype, tolerance, default_csi, generator):
    policy = GraphPolicy.initialised(Scenario()).to(dtype)
    for layer in policy.layers:
        torch.nn.init.normal_(layer.bias, std=0.1, generator=generator)
    csi = default_csi.to(dtype).clone().requires_grad_()
    inputs = (*policy.parameters(), csi)

    ours, theirs = policy.powers(csi), powers_by_equation(policy, csi)

    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=0)
    for our, their in zip(gradients(ours, inputs), gradients(theirs, inputs), strict=True):
        scale = their.abs().max().item()
        torch.testing.assert_close(our, their, rtol=0, atol=tolerance * scale)


def test_normalised_adjacency_is_invariant_to_the_noise_level(default_csi):
    policy = GraphPolicy.initialised(Scenario())
    torch.testing.assert_close(
        normalised_adjacency(1e-3 * default_csi), normalised_adjacency(default_csi)
    )
    torch.testing.assert_close(
        policy.allocate(1e-3 * default_csi), policy.allocate(default_csi), rtol=1e-4, atol=0
    )


def test_initial_weights_depend_on_the_seed_only(default_csi):
    first, again, other = (GraphPolicy.initialised(Scenario(), seed) for seed in (1, 1, 2))
    assert torch.equal(first.allocate(default_csi), again.allocate(default_csi))
    assert not torch.equal(first.allocate(default_csi), other.allocate(default_csi))


def test_initialisation_does_not_change_the_global_generator():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    GraphPolicy.initialised(Scenario(), seed=1)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("pmax_dbw", [-40, 0])
def test_perceptron_has_the_layers_of_the_paper(pmax_dbw, default_csi):
    policy = PerceptronPolicy.initialised(Scenario(pmax_dbw=pmax_dbw))
    weights = [w for w in policy.parameters() if w.ndim == 2]
    assert [tuple(w.shape) for w in weights] == [
        (128, 65),
        (256, 128),
        (64, 256),
        (16, 64),
        (8, 16),
        (8, 8),
    ]

    biases = [b for b in policy.parameters() if b.ndim == 1]
    values = torch.cat((default_csi.log10().flatten(1), torch.full((100, 1), pmax_dbw / 10)), 1)
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        values = values @ weight.T + bias
        values = torch.where(values > 0, values, 0.01 * values)
    logits = values @ weights[-1].T + biases[-1]
    expected = 10 ** (pmax_dbw / 10) / (1 + torch.exp(-logits))

    torch.testing.assert_close(policy.allocate(default_csi), expected.detach())
