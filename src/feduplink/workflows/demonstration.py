"""A small end-to-end comparison: train, compare with the optimum, federate, report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feduplink.scenario import Scenario
from feduplink.settings import CHANNELS_PER_SPLIT
from feduplink.workflows.evaluation import Evaluation, evaluate
from feduplink.workflows.federation import FederatedComparison, federate, task_of
from feduplink.workflows.options import Seed, workflow
from feduplink.workflows.training import TrainingRun, train

#: Epochs of the demo; the paper trains for 1000.
_EPOCHS = 100
_LEARNED = ("pdm", "pdg")
_COMPARED = ("rand", "orth", "max", "openloop", *_LEARNED, "dual", "pdx")
_FEDERATED = ("ideal", "tdma", "ofdma", "max", "openloop", "pdg", "pdx")
_ROUNDS, _RUNS = 20, 2


@dataclass(frozen=True)
class Demonstration:
    """The results of the demo, in the order in which they are made.

    Attributes:
        training: of ``pdm`` and ``pdg``, by name.
        evaluation: all policies and the optimum.
        federation: some of them in a federation on handwritten digits.
        page: the HTML report.
    """

    training: dict[str, TrainingRun]
    evaluation: Evaluation
    federation: FederatedComparison
    page: Path


@workflow
def demo(
    scenario: Scenario,
    *,
    out: Path = Path("runs", "demo"),
    seed: Seed = 0,
    epochs: int = _EPOCHS,
    rounds: int = _ROUNDS,
    runs: int = _RUNS,
    channels_per_split: int | None = None,
    tell: Callable[[Any], None] = lambda _text: None,
) -> Demonstration:
    """Run a small end-to-end comparison and write an HTML report.

    ``pdm`` and ``pdg`` are trained, all policies are compared with the optimum, and some of them
    train a federated model.

    Args:
        scenario: the cell, the radio and the problem.
        out: directory for all results and the page.
        seed: of all random numbers.
        epochs: of the training of ``pdm`` and ``pdg``.
        rounds: of every federated run.
        runs: independent federated runs of every policy.
        channels_per_split: number of channels of each split and of the verdicts; None: 1000, and as
            many as the verdicts take.
        tell: is called with sentences and results as they come.

    """
    from feduplink.reporting.page import read_sections, write_page
    from feduplink.storage.run_directory import FinishedRun, part

    task = task_of(scenario, "digits")  # before anything takes long
    tell(
        f"{scenario.workers} workers send their models to a base station with {scenario.antennas} "
        f"antennas at up to {float(scenario.max_power.max()):g} W and interfere with each other.\n"
        f"{channels_per_split or CHANNELS_PER_SPLIT} channels each are drawn for training, "
        "validation and test."
    )
    drawn: dict[str, Any] = {"channels_per_split": channels_per_split, "seed": seed}
    training = {}
    for name in _LEARNED:
        tell(f"Training {name} for {epochs} epochs ...")
        with part():
            training[name] = train(scenario, name, epochs=epochs, **drawn)
            training[name].save(out / name)
    tell("Learning multipliers of dual and pdx, then searching the optimum ...")
    policies = {name: training[name].policy if name in training else name for name in _COMPARED}
    evaluation = evaluate(scenario, policies, optimum=True, **drawn)
    evaluation.save(out)
    tell(evaluation)
    tell(explanation(evaluation, epochs))
    tell(f"\nTraining a model together, on handwritten digits, for {rounds} rounds ...")
    chosen = [training[name].policy if name in training else name for name in _FEDERATED]
    with part():
        federation = federate(scenario, task, chosen, runs=runs, rounds=rounds, seed=seed)
        federation.save(out / "federated")
    tell(federation)
    results = {"": evaluation, **training, "federated": federation}
    page = write_page(out, read_sections([FinishedRun.read(out / name) for name in results]))
    written = [f"{out / name}: {result.files}" for name, result in results.items()]
    tell("\n".join(["", *written, f"All of it on one page: open {page} in a browser."]))
    return Demonstration(training, evaluation, federation, page)


def explanation(evaluation: Evaluation, epochs: int) -> str:
    """The findings of a comparison, one sentence per line."""
    scenario, optimum = evaluation.scenario, evaluation.optimum
    judged = evaluation.judgements
    candidates = {name: row for name, row in judged.items() if row.feasible}
    undecided = [name for name, row in judged.items() if row.feasible is None]
    quiet = min(outcome.participation for outcome in evaluation.values())
    lines = [
        f"The objective is the {scenario.utility} over the workers of the mean {scenario.objective}"
        + (", the share of models that arrive." if scenario.objective == "psr" else "."),
        "Every worker must keep the limits in the header on average.",
        "A low weighted PER alone says little: it counts only workers that send, and with the "
        f"most silent policy here {100 * quiet:.0f} % of them do.",
        f"pdm and pdg are learned, here in {epochs} epochs; 'feduplink train' gives them the "
        "paper's 1000.",
    ]
    if candidates:
        best = max(candidates, key=lambda name: candidates[name].objective)
        lines.append(
            f"Of the feasible policies, {best} has the highest objective: "
            f"{candidates[best].objective:.4f}."
        )
    if undecided:
        lines.append(f"The verdict is inconclusive for: {', '.join(undecided)}.")
    if optimum is not None:
        lines.append(
            "The optimum was searched knowing all test channels. No policy with one power per "
            f"worker and round exceeds {optimum.upper_bound:.4f} on them: proved, not estimated."
        )
    return "\n".join(lines)
