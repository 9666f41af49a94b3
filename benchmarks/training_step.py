"""One training step of ``pdg``: our dense graph convolution against PyTorch Geometric's sparse one.

Both policies hold the same weights, compute the same powers and go through the very same
:func:`feduplink.learning.primal_dual_step`; only the layers differ. The steps of the two are
interleaved, so that whatever else the machine does hits both.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv

from feduplink import GraphPolicy, Problem, Scenario, TrainingSettings, draw_csi
from feduplink.learning import primal_dual_step
from feduplink.policies import NeuralPolicy
from feduplink.policies.pdg import HIDDEN


class SparseGraphPolicy(NeuralPolicy):
    """The same network with ``GCNConv`` layers on the block-diagonal graph of a batch."""

    name = "pdg-sparse"

    def __init__(self, scenario: Scenario, batch: int) -> None:
        super().__init__(scenario)
        widths = (1, *HIDDEN, 1)
        self.layers = nn.ModuleList(
            GCNConv(fan_in, fan_out, add_self_loops=False)
            for fan_in, fan_out in itertools.pairwise(widths)
        )
        workers = scenario.workers
        source, target = torch.cartesian_prod(torch.arange(workers), torch.arange(workers)).T
        first = workers * torch.arange(batch)[:, None]
        self.edges = torch.stack(((first + source).flatten(), (first + target).flatten()))

    def powers(self, csi: Tensor) -> Tensor:
        """(N, L, L) to (N, L), W, for the N and L the edges were made for."""
        weights = csi.flatten()
        features = csi.new_full((csi.shape[0] * csi.shape[1], 1), self.scenario.pmax_w)
        for layer in self.layers[:-1]:
            features = functional.elu(layer(features, self.edges, weights))
        logits = self.layers[-1](features, self.edges, weights).view(csi.shape[:-1])
        return self.scenario.pmax_w * torch.sigmoid(logits)

    def copy_weights(self, dense: GraphPolicy) -> None:
        """Take over the weights of the dense policy."""
        with torch.no_grad():
            for own, other in zip(self.layers, dense.layers, strict=True):
                own.lin.weight.copy_(other.theta.T)
                own.bias.copy_(other.bias)


def stepper(policy: NeuralPolicy, csi: Tensor) -> Callable[[], float]:
    """A function that does one training step and returns its seconds."""
    settings = TrainingSettings()
    problem = Problem.of(policy.scenario)
    optimizer = torch.optim.Adam(
        policy.parameters(),
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    state = primal_dual_step(policy, optimizer, problem, csi, None, settings)

    def step() -> float:
        nonlocal state
        start = time.perf_counter()
        state = primal_dual_step(policy, optimizer, problem, csi, state, settings)
        return time.perf_counter() - start

    return step


def measure(threads: int, batch: int, repetitions: int) -> tuple[float, float]:
    """Median seconds of a dense and of a sparse step."""
    torch.set_num_threads(threads)
    scenario = Scenario()
    csi = draw_csi(scenario, batch, torch.Generator().manual_seed(0))
    dense = GraphPolicy.initialised(scenario)
    sparse = SparseGraphPolicy(scenario, batch)
    sparse.copy_weights(dense)
    torch.testing.assert_close(dense(csi), sparse(csi), rtol=1e-4, atol=1e-8)

    steps = {"dense": stepper(dense, csi), "sparse": stepper(sparse, csi)}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for repetition in range(repetitions + 20):
        for name, step in steps.items():
            elapsed = step()
            if repetition >= 20:  # the first ones warm up
                seconds[name].append(elapsed)
    return statistics.median(seconds["dense"]), statistics.median(seconds["sparse"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    for threads in options.threads:
        dense, sparse = measure(threads, options.batch, options.repetitions)
        print(
            f"{threads} thread(s), batch {options.batch}: dense {dense * 1e3:.2f} ms, "
            f"GCNConv {sparse * 1e3:.2f} ms, ratio {sparse / dense:.1f}"
        )


if __name__ == "__main__":
    main()
