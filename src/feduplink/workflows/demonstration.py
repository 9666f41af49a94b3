"""A small end-to-end comparison: train, compare with the optimum, federate, report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from feduplink.progress import track_each
from feduplink.scenario import Scenario
from feduplink.settings import CHANNELS_PER_SPLIT
from feduplink.workflows.evaluation import Evaluation, evaluate
from feduplink.workflows.federation import FederatedComparison, federate, task_of
from feduplink.workflows.options import CommandLine, Processes, Seed, TestChannelsPerSplit, workflow
from feduplink.workflows.result import Result, load_result
from feduplink.workflows.sweeps import start_single_threaded
from feduplink.workflows.training import TrainingRun, train

#: Number of training epochs, as in the paper.
_EPOCHS = 1000
_LEARNED = ("pdm", "pdg")
_COMPARED = ("rand", "orth", "max", "openloop", *_LEARNED, "pdx")
_FEDERATED = ("ideal", "tdma", "orth", "max", "openloop", "pdg", "pdx")
#: Worker positions in the two federations, with a description.
_GEOMETRIES = {
    "redrawn": "every worker moves to a new position after each round, as in the paper",
    "kept": "every worker stays where it is, as in a cell that exists",
}
_ROUNDS, _RUNS = 20, 5
#: Deadline of a federated round, s: three times the median duration at full power.
_DEADLINE_S = 30.0


@dataclass(frozen=True)
class Demonstration:
    """Results of the demo.

    Attributes:
        training: training runs of ``pdm`` and ``pdg``, by name.
        evaluation: comparison of all policies with the optimum.
        federations: comparisons in a federation on handwritten digits, by ``geometry``.
        page: path of the HTML report.
    """

    training: dict[str, TrainingRun]
    evaluation: Evaluation
    federations: dict[str, FederatedComparison]
    page: Path


@workflow
def demo(
    scenario: Scenario,
    *,
    out: Path = Path("runs", "demo"),
    epochs: Annotated[
        int, Field(ge=1, description="Epochs of the training of pdm and pdg"), CommandLine("N")
    ] = _EPOCHS,
    rounds: Annotated[
        int, Field(ge=1, description="Rounds of every federated run"), CommandLine("N")
    ] = _ROUNDS,
    runs: Annotated[
        int, Field(ge=1, description="Federated runs of every policy"), CommandLine("N")
    ] = _RUNS,
    processes: Processes = None,
    channels_per_split: TestChannelsPerSplit = None,
    seed: Seed = 0,
    tell: Callable[[Any], None] = lambda _text: None,
) -> Demonstration:
    """Run a small end-to-end comparison and write an HTML report.

    ``pdm`` and ``pdg`` are trained, all policies are compared with the optimum, and a selection of
    policies trains a federated model: once with worker positions redrawn in every round, once with
    positions kept.

    Args:
        scenario: the cell, the radio and the problem.
        out: directory for all results and the page.
        epochs: number of training epochs of ``pdm`` and ``pdg``.
        rounds: number of rounds of every federated run.
        runs: number of independent federated runs per policy.
        processes: number of processes for the training; None: one per processor.
        channels_per_split: number of channels in each split and for the verdicts; None: 1000, and
            for the verdicts as many as :func:`evaluate` needs.
        seed: seed of all random numbers.
        tell: callback for messages and results, called as soon as they are available.

    Returns:
        The results, which are also saved in ``out``.
    """
    from feduplink.reporting.page import read_sections, write_page
    from feduplink.storage.run_directory import FinishedRun, part

    task = task_of(scenario, "digits")  # first, so that errors appear before the training
    drawn: dict[str, Any] = {"channels_per_split": channels_per_split, "seed": seed}
    tell(
        f"{scenario.workers} workers send their models to a base station with {scenario.antennas} "
        "antennas in the same band and interfere with each other.\n"
        f"{channels_per_split or CHANNELS_PER_SPLIT} channels each are drawn for training, "
        "validation and test."
    )
    tell(f"Training pdm and pdg for {epochs} epochs ...")
    training = _train(scenario, out, processes or os.cpu_count() or 1, epochs=epochs, **drawn)
    tell("Finding the optimum and its bound, and judging all policies ...")
    policies = _with_trained(_COMPARED, training)
    evaluation = evaluate(scenario, policies, optimum=True, **drawn)
    evaluation.save(out)
    _tell_result(tell, evaluation)
    federations = {}
    for geometry, positions in _GEOMETRIES.items():
        tell(
            f"\nTraining a model of handwritten digits for {rounds} rounds with a deadline of "
            f"{_DEADLINE_S:g} s; {positions} ..."
        )
        with part():
            federations[geometry] = federate(
                scenario.replace(geometry=geometry),
                task,
                _with_trained(_FEDERATED, training),
                runs=runs,
                rounds=rounds,
                deadline=_DEADLINE_S,
                seed=seed,
            )
            federations[geometry].save(out / f"federated-{geometry}")
        _tell_result(tell, federations[geometry])
    results: dict[str, Result] = {
        "": evaluation,
        **{f"federated-{geometry}": found for geometry, found in federations.items()},
        **training,
    }
    page = write_page(out, read_sections([FinishedRun.read(out / name) for name in results]))
    written = [f"{out / name}: {result.files}" for name, result in results.items()]
    tell("\n".join(["", *written, f"All of it on one page: open {page} in a browser."]))
    return Demonstration(training, evaluation, federations, page)


def _tell_result(tell: Callable[[Any], None], result: Evaluation | FederatedComparison) -> None:
    """Pass a result and its findings to ``tell``."""
    tell(result)
    tell("\n".join(result.findings()))


def _with_trained(names: tuple[str, ...], training: Mapping[str, TrainingRun]) -> dict[str, Any]:
    """Policies by name: the trained policy if there is one, else the name itself."""
    return {name: training[name].policy if name in training else name for name in names}


def _train(scenario: Scenario, out: Path, processes: int, **options: Any) -> dict[str, TrainingRun]:
    """Train ``pdm`` and ``pdg``, in parallel if ``processes`` allows, and save both."""
    from feduplink.process_pool import process_pool

    if processes == 1:
        for name in _LEARNED:
            _train_one(name, scenario, out, options)
    else:
        with process_pool(min(processes, len(_LEARNED)), start_single_threaded) as pool:
            submitted = [pool.submit(_train_one, name, scenario, out, options) for name in _LEARNED]
            for future in track_each("training", submitted, "policies"):
                future.result()
    return {name: load_result(out / name) for name in _LEARNED}


def _train_one(name: str, scenario: Scenario, out: Path, options: dict[str, Any]) -> None:
    """Train a policy and save the run in ``out/name``."""
    from feduplink.storage.run_directory import part

    with part():
        train(scenario, name, **options).save(out / name)
