"""The paper's two learned policies over its settings, and what its formula leaves open.

    python benchmarks/paper_policies.py settings [--seeds 4] [--processes 2]
    python benchmarks/paper_policies.py graph

``settings`` trains pdm and pdg for 1000 epochs at each of the eight shipped scenarios and prints
the mean objective on 1000 test channels over the seeds. ``graph`` trains pdg at the default
setting on four graphs: H as the paper writes it or its transpose, with and without a bias.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise, product

import torch
from torch import Tensor, nn

from feduplink import Scenario, Training, TrainingData, TrainingSettings, evaluate
from feduplink.channels import draw_splits
from feduplink.experiments.optimality_gap import SCENARIOS
from feduplink.learning import LEARNING_RATES
from feduplink.policies import POLICIES, NeuralPolicy
from feduplink.policies.pdg import HIDDEN
from feduplink.problem import Judgement


class GraphVariant(NeuralPolicy):
    """pdg on a graph of choice, layer by layer."""

    name = "pdg-variant"

    def __init__(self, scenario: Scenario, *, transposed: bool, bias: bool) -> None:
        super().__init__(scenario)
        self.transposed = transposed
        widths = (1, *HIDDEN, 1)
        self.layers = nn.ModuleList(nn.Linear(i, o, bias=bias) for i, o in pairwise(widths))
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)

    def powers(self, csi: Tensor) -> Tensor:
        graph = csi.mT if self.transposed else csi
        scale = graph.sum(-1).rsqrt()
        graph = scale[..., :, None] * graph * scale[..., None, :]
        features = torch.full((*csi.shape[:-1], 1), self.scenario.pmax_w)
        for k, layer in enumerate(self.layers):
            features = graph @ features @ layer.weight.mT
            if layer.bias is not None:
                features = features + layer.bias
            if k < len(HIDDEN):
                features = nn.functional.elu(features)
        return self.scenario.pmax_w * torch.sigmoid(features[..., 0])


def trained(policy: NeuralPolicy, rate: float, seed: int) -> tuple[Judgement, Judgement]:
    splits = draw_splits(policy.scenario, seed=seed)
    data = TrainingData(splits.training, splits.validation)
    Training(policy, data, TrainingSettings(learning_rate=rate), seed=seed).run()
    scenario = policy.scenario
    return (
        evaluate(policy, splits.validation, scenario),
        evaluate(policy, splits.test, scenario),
    )


def one(job: tuple[str, str, int]) -> Judgement:
    setting, name, seed = job
    torch.set_num_threads(1)
    kind = POLICIES[name]
    assert issubclass(kind, NeuralPolicy)
    policy = kind.initialised(Scenario.from_yaml(setting), seed)
    return trained(policy, LEARNING_RATES[name], seed)[1]


def settings(seeds: int, processes: int) -> None:
    jobs = list(product(SCENARIOS, ("pdm", "pdg"), range(seeds)))
    with ProcessPoolExecutor(processes) as pool:
        verdicts = dict(zip(jobs, pool.map(one, jobs), strict=True))
    print("| setting | pdm | pdg |\n| --- | ---: | ---: |")
    for setting in SCENARIOS:
        cells = []
        for name in ("pdm", "pdg"):
            values = [verdicts[setting, name, seed].objective for seed in range(seeds)]
            mean = sum(values) / seeds
            cells.append(f"{mean:.3f} ({min(values):.3f} to {max(values):.3f})")
        print(f"| {setting} | {' | '.join(cells)} |")


def graph() -> None:
    torch.set_num_threads(1)
    print("| graph | bias | validation objective | worst shortfall | test objective |")
    print("| --- | --- | ---: | ---: | ---: |")
    for transposed, bias in product((False, True), (False, True)):
        torch.manual_seed(0)
        policy = GraphVariant(Scenario(), transposed=transposed, bias=bias)
        validation, test = trained(policy, LEARNING_RATES["pdg"], 0)
        print(
            f"| {'Hᵀ' if transposed else 'H, as written'} | {'yes' if bias else 'no'} "
            f"| {validation.objective:.4f} | {validation.violation:.1%} | {test.objective:.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("settings", "graph"))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    if args.table == "settings":
        settings(args.seeds, args.processes)
    else:
        graph()
