"""The paper's two learned policies over its settings, and what each of our departures brings.

    python benchmarks/paper_policies.py settings [--seeds 4] [--processes 2]
    python benchmarks/paper_policies.py presets
    python benchmarks/paper_policies.py graph
    python benchmarks/paper_policies.py subsets [--epochs 300]

``settings`` trains pdm and pdg for 1000 epochs at each of the eight shipped scenarios and prints
the mean objective on 1000 test channels over the seeds. The others train with seed 0: ``presets``
goes from the preset ``ours`` to ``paper`` step by step at the default setting; ``graph`` trains
pdg on H as the paper writes it or its transpose, with and without a bias; ``subsets`` trains pdg
on a part of the workers of every batch and judges it on all.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import torch

from feduplink import PrimalDualLearning, Scenario, Trainer
from feduplink.channels import make_channels
from feduplink.experiments.optimality_gap import OptimalityGap
from feduplink.judgement import Judgement
from feduplink.policies import GraphPolicy, NeuralPolicy, PerceptronPolicy, judge_policy
from feduplink.settings import GraphArchitecture
from feduplink.training import Preset

KINDS: tuple[type[NeuralPolicy], ...] = (PerceptronPolicy, GraphPolicy)

#: From ours to the paper's, in steps; the names are of fields of the settings.
STEPS = {
    "`--preset ours`": (),
    "and γ = 1e-4": ("primal_dual_step",),
    "and raw units, no margin, r and e from the first batch": (
        "relative_units",
        "margin",
        "required_start",
    ),
}


class PlainAscent(PrimalDualLearning):
    """Training whose weights follow the paper's equation too, Θ ← Θ + γ_Θ ∇, without Adam."""

    def __init__(self, policy: NeuralPolicy, *args: Any, **kwargs: Any) -> None:
        super().__init__(policy, *args, **kwargs)
        self.optimizer = torch.optim.SGD(
            policy.parameters(),
            lr=self.settings.learning_rate,
            weight_decay=self.settings.weight_decay,
        )


def trained(
    kind: type[NeuralPolicy],
    preset: Preset,
    scenario: Scenario,
    seed: int,
    algorithm: type[PrimalDualLearning] = PrimalDualLearning,
) -> tuple[Judgement, Judgement, float]:
    """Judgements on validation and test channels, and the CPU seconds of training."""
    torch.set_num_threads(1)
    policy = kind.initialised(scenario, seed, preset.architecture)
    splits = make_channels(scenario, seed=seed)
    start = time.process_time()
    Trainer(algorithm(policy, splits, preset.settings, seed=seed)).run()
    seconds = time.process_time() - start
    validation, test = (judge_policy(policy, c, scenario) for c in (splits.validation, splits.test))
    return validation, test, seconds


def one(job: tuple[str, type[NeuralPolicy], int]) -> Judgement:
    setting, kind, seed = job
    return trained(kind, Preset.for_policy(kind), Scenario.load(setting), seed)[1]


def settings(seeds: int, processes: int) -> None:
    jobs = list(product(OptimalityGap.scenarios, KINDS, range(seeds)))
    with ProcessPoolExecutor(processes) as pool:
        verdicts = dict(zip(jobs, pool.map(one, jobs), strict=True))
    print("| setting | pdm | pdg |\n| --- | ---: | ---: |")
    for setting in OptimalityGap.scenarios:
        cells = []
        for kind in KINDS:
            values = [verdicts[setting, kind, seed].objective for seed in range(seeds)]
            mean = sum(values) / seeds
            cells.append(f"{mean:.3f} ({min(values):.3f} to {max(values):.3f})")
        print(f"| {setting} | {' | '.join(cells)} |")


def presets() -> None:
    print("| policy | trained with | objective | worst shortfall |")
    print("| --- | --- | ---: | ---: |")
    for kind in KINDS:
        ours, paper = Preset.for_policy(kind), Preset.for_policy(kind, "paper")
        changed: dict[str, Any] = {}
        for label, fields in STEPS.items():
            changed |= {field: getattr(paper.settings, field) for field in fields}
            preset = Preset(ours.settings.replace(**changed), ours.architecture)
            print_row(kind.name, label, trained(kind, preset, Scenario(), 0)[1])
        print_row(kind.name, "`--preset paper`", trained(kind, paper, Scenario(), 0)[1])
        plain = trained(kind, paper, Scenario(), 0, PlainAscent)[1]
        print_row(kind.name, "and plain ascent instead of Adam", plain)


def graph() -> None:
    print("| graph | bias | objective | worst shortfall |\n| --- | --- | ---: | ---: |")
    for transposed, bias in product((False, True), (False, True)):
        architecture = GraphArchitecture(transposed_graph=transposed, bias=bias)
        preset = Preset(Preset.for_policy(GraphPolicy).settings, architecture)
        written = "Hᵀ" if transposed else "H, as written"
        print_row(written, "yes" if bias else "no", trained(GraphPolicy, preset, Scenario(), 0)[1])


def subsets(epochs: int) -> None:
    # y climbs by γ ω per step, and ω is a third as large with 24 workers.
    cells = {
        "default": (Scenario(), 1e-3, (None, 4)),
        "24 workers, no thresholds": (
            Scenario(workers=24, rate_min=0, ee_min=0),
            3e-3,
            (None, 8),
        ),
    }
    print("| cell | trained on | objective on all | worst shortfall | CPU s |")
    print("| --- | --- | ---: | ---: | ---: |")
    for label, (scenario, step, sizes) in cells.items():
        for size in sizes:
            ours = Preset.for_policy(GraphPolicy)
            settings = ours.settings.replace(
                epochs=epochs, subset_workers=size, primal_dual_step=step
            )
            preset = Preset(settings, ours.architecture)
            _, test, seconds = trained(GraphPolicy, preset, scenario, 0)
            print_row(label, f"{size or 'all'} of {scenario.workers}", test, f" {seconds:.0f} |")


def print_row(first: str, second: str, verdict: Judgement, more: str = "") -> None:
    figures = f"{verdict.objective:.3f} | {verdict.violation:.1%} |{more}"
    print(f"| {first} | {second} | {figures}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("settings", "presets", "graph", "subsets"))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=300)
    args = parser.parse_args()
    if args.table == "settings":
        settings(args.seeds, args.processes)
    elif args.table == "subsets":
        subsets(args.epochs)
    else:
        {"presets": presets, "graph": graph}[args.table]()
