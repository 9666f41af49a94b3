"""``feduplink demo``: the main job at small scale."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from feduplink.channels import Channels
from feduplink.cli.console import console, wrapped
from feduplink.cli.federate import default_target
from feduplink.cli.optimum import search_optimum
from feduplink.cli.options import scenario_from
from feduplink.cli.tables import terminal_table
from feduplink.federated import OFDMA, TDMA, FederationSettings, Ideal, Task, federate, load_task
from feduplink.optimum import Optimum
from feduplink.policies import (
    DualPolicy,
    FullPower,
    GraphPolicy,
    NeuralPolicy,
    OpenLoop,
    PerceptronPolicy,
    Policy,
    UnrolledPolicy,
    default_policies,
    make_policies,
    shipped_pdx,
)
from feduplink.reporting.page import read_sections, write_page
from feduplink.scenario import Scenario
from feduplink.storage import run_directory as provenance
from feduplink.storage.run_directory import FinishedRun, output_directory
from feduplink.tracking import CsvLog
from feduplink.training import Training, TrainingData, training_settings
from feduplink.workflows.comparison_files import write_comparison
from feduplink.workflows.evaluation import Outcome, compare
from feduplink.workflows.federated_files import write_federated
from feduplink.workflows.training_files import write_training

_LEARNED: tuple[type[NeuralPolicy], ...] = (PerceptronPolicy, GraphPolicy)

#: Epochs of the demo; the paper trains for 1000.
_EPOCHS = 100

#: Seconds for the proof that nobody does better.
_BUDGET_S = 20.0

#: Who takes part in federated learning beside ``ideal``, where every upload arrives.
_FEDERATED = (FullPower, OpenLoop, GraphPolicy, UnrolledPolicy)
_ROUNDS, _RUNS = 20, 2


def run(args: argparse.Namespace) -> None:
    """Train, compare, federate, write everything to --out, and say what there is to see."""
    scenario, directory = scenario_from(args), output_directory(args)
    task = load_task("digits", workers=scenario.workers)
    out = console()
    largest_w = float(scenario.pmax_w.max())
    channels = Channels.from_scenario(scenario, seed=args.seed)
    introduction = (
        f"{scenario.workers} workers send their models to a base station with {scenario.antennas} "
        f"antennas at up to {largest_w:g} W and disturb each other.\n"
        f"Drew {len(channels.test)} channels each for training, validation and test."
    )
    out.print(wrapped(introduction, out))
    policies = make_policies(default_policies(), scenario, channels=channels, seed=args.seed)
    for kind in _LEARNED:
        out.print(f"Training {kind.name} for {_EPOCHS} epochs ...")
        with provenance.part():
            policies[kind.name] = _train(kind, scenario, channels, directory / kind.name, args.seed)
    out.print("Learning multipliers of dual and pdx, then searching the optimum ...")
    for policy in (DualPolicy.learned(scenario, channels.training), shipped_pdx(scenario)):
        policies[policy.name] = policy
    optimum = search_optimum(scenario, channels.test, _BUDGET_S)
    outcomes = compare(policies, channels.test, scenario, seed=args.seed)
    optimum = optimum.improved_by(outcomes.powers)
    write_comparison(directory, outcomes, scenario, optimum, seed=args.seed)
    out.print(terminal_table(outcomes.table(optimum)))
    out.print(wrapped(_explanation(outcomes, scenario, optimum), out))
    chosen = {kind.name: policies[kind.name] for kind in _FEDERATED}
    with provenance.part():
        _federate(task, chosen, scenario, directory / "federated", args.seed, out)
    learned = [kind.name for kind in _LEARNED]
    own = [directory, *(directory / name for name in (*learned, "federated"))]
    page = write_page(directory, read_sections([FinishedRun.read(path) for path in own]))
    out.print(
        f"\n{directory}: metrics.json, comparison.md, comparison.png, power-histogram.png\n"
        + "\n".join(
            f"{directory / name}: the trained policy, history.csv, convergence.png"
            for name in learned
        )
        + f"\n{directory / 'federated'}: metrics.json, federated.md, error.png, arrivals.png"
        + f"\nAll of it on one page: open {page} in a browser."
    )


def _train(
    kind: type[NeuralPolicy],
    scenario: Scenario,
    channels: Channels,
    directory: Path,
    seed: int,
) -> Policy:
    settings = training_settings(kind, epochs=_EPOCHS)
    policy = kind.initialised(scenario, seed)
    data = TrainingData.from_source(channels)
    training = Training(policy, data, settings, seed=seed)
    training.run([CsvLog(directory / "history.csv")])
    write_training(directory, training, channels, seed=seed)
    return policy


def _federate(
    task: Task,
    policies: Mapping[str, Policy],
    scenario: Scenario,
    directory: Path,
    seed: int,
    out: Console,
) -> None:
    """What the policies do to a model that the workers train together."""
    out.print(f"\nTraining a model together, on handwritten digits, for {_ROUNDS} rounds ...")
    history = federate(
        task,
        {"ideal": Ideal(), "tdma": TDMA(), "ofdma": OFDMA(), **policies},
        scenario,
        FederationSettings(runs=_RUNS, rounds=_ROUNDS),
        seed=seed,
    )
    target = default_target(history)
    write_federated(
        directory, history, target, scenario=scenario.model_dump(mode="json"), seed=seed
    )
    out.print(terminal_table(history.table(target)))


def _explanation(outcomes: Mapping[str, Outcome], scenario: Scenario, optimum: Optimum) -> str:
    """What the table says, in plain words."""
    candidates = {n: o.judgement for n, o in outcomes.items() if o.judgement.feasible is not False}
    quiet = min(outcomes.values(), key=lambda o: o.judgement.participation).judgement
    lines = [
        f"The objective is the {scenario.utility} over the workers of the mean {scenario.objective}"
        + (", the share of models that arrive." if scenario.objective == "psr" else "."),
        "Every worker must keep the limits in the header on average.",
        "A low weighted PER alone says little: it counts only workers that send, and with the "
        f"most silent policy here {100 * quiet.participation:.0f} % of them do.",
        f"pdm and pdg are learned, here in {_EPOCHS} epochs; 'feduplink train' gives them the "
        "paper's 1000.",
    ]
    if candidates:
        best = max(candidates, key=lambda name: candidates[name].objective)
        lines.append(
            f"Of the policies that are not shown to miss a constraint, {best} has the highest "
            f"objective: {candidates[best].objective:.4f}."
        )
    lines.append(
        f"The optimum was searched knowing all test channels. That nobody exceeds "
        f"{optimum.upper_bound:.4f} on them is proved, not estimated."
    )
    return "\n".join(lines)
