"""One training step of ``pdg``: our dense graph convolution against PyTorch Geometric's sparse one.

All policies hold the same weights, compute the same powers and go through the very same
:func:`feduplink.training.primal_dual_step`; only the layers differ. There are two peers: one
makes the edges of the batch's graph once, the other lets PyTorch Geometric collate the graphs of
every batch, as its data loader does. Their steps are interleaved, so that whatever else the
machine does hits all of them.
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
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv

from feduplink import GraphPolicy, Problem, Scenario, TrainingSettings, draw_csi
from feduplink.policies import GRAPH_HIDDEN, NeuralPolicy
from feduplink.training import primal_dual_step


class SparseGraphPolicy(NeuralPolicy):
    """The same network with ``GCNConv`` layers on the block-diagonal graph of a batch."""

    name = "pdg-sparse"

    def __init__(self, scenario: Scenario, batch: int) -> None:
        super().__init__(scenario)
        widths = (1, *GRAPH_HIDDEN, 1)
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
        edges, weights = self.graph(csi)
        features = csi.new_full((csi.shape[0] * csi.shape[1], 1), self.scenario.max_power)
        for layer in self.layers[:-1]:
            features = functional.elu(layer(features, edges, weights))
        logits = self.layers[-1](features, edges, weights).view(csi.shape[:-1])
        return self.scenario.max_power * torch.sigmoid(logits)

    def graph(self, csi: Tensor) -> tuple[Tensor, Tensor]:
        """Edges (2, N L L) and their weights (N L L)."""
        return self.edges, csi.flatten()

    def copy_weights(self, dense: GraphPolicy) -> None:
        """Take over the weights of the dense policy."""
        with torch.no_grad():
            for own, other in zip(self.layers, dense.layers, strict=True):
                own.lin.weight.copy_(other.theta.T)
                own.bias.copy_(other.bias)


class CollatedGraphPolicy(SparseGraphPolicy):
    """The same on graphs that are collated anew for every batch."""

    name = "pdg-collated"

    def graph(self, csi: Tensor) -> tuple[Tensor, Tensor]:
        """Edges (2, N L L) and their weights (N L L)."""
        edges = self.edges[:, : csi.shape[-1] ** 2]
        graphs = [
            Data(edge_index=edges, edge_attr=h.flatten(), num_nodes=csi.shape[-1]) for h in csi
        ]
        batch = Batch.from_data_list(graphs)
        return batch.edge_index, batch.edge_attr


def stepper(policy: NeuralPolicy, csi: Tensor) -> Callable[[], float]:
    """A function that does one training step and returns its seconds."""
    settings = TrainingSettings()
    problem = Problem.from_scenario(policy.scenario)
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


def measure(threads: int, batch: int, repetitions: int) -> dict[str, float]:
    """Median seconds of a step, by implementation."""
    torch.set_num_threads(threads)
    scenario = Scenario()
    csi = draw_csi(scenario, batch, torch.Generator().manual_seed(0))
    dense = GraphPolicy.initialised(scenario)
    policies: dict[str, NeuralPolicy] = {"dense": dense}
    for name, kind in (("GCNConv", SparseGraphPolicy), ("GCNConv, collated", CollatedGraphPolicy)):
        policies[name] = kind(scenario, batch)
        policies[name].copy_weights(dense)
        torch.testing.assert_close(dense(csi), policies[name](csi), rtol=1e-4, atol=1e-8)

    steps = {name: stepper(policy, csi) for name, policy in policies.items()}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for repetition in range(repetitions + 20):
        for name, step in steps.items():
            elapsed = step()
            if repetition >= 20:  # the first ones warm up
                seconds[name].append(elapsed)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    for threads in options.threads:
        medians = measure(threads, options.batch, options.repetitions)
        for name, seconds in medians.items():
            print(
                f"{threads} thread(s), batch {options.batch}, {name}: {seconds * 1e3:.2f} ms, "
                f"ratio {seconds / medians['dense']:.1f}"
            )


if __name__ == "__main__":
    main()
