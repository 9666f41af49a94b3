"""``feduplink train``: learn a policy by primal–dual training."""

from __future__ import annotations

import argparse
from pathlib import Path

from feduplink.cli import train_pdx, train_phases
from feduplink.cli.channel_source import channels_from
from feduplink.cli.console import console
from feduplink.cli.optimum import warn_of
from feduplink.cli.options import explicit_fields
from feduplink.cli.tables import terminal_table
from feduplink.errors import InputError
from feduplink.federated import LearnedSchedule
from feduplink.optimum import check_reachable
from feduplink.policies import NeuralPolicy, Policy, UnrolledPolicy, policy_class
from feduplink.progress import Callback
from feduplink.registry import POLICIES
from feduplink.reporting.comparison import comparison_table
from feduplink.settings import Architecture, GraphArchitecture, PresetName, TrainingSettings
from feduplink.storage.run_directory import check_beginning, output_directory, resume_hint
from feduplink.tracking import CsvLog, TensorBoardLog
from feduplink.training import Preset, Training, TrainingData, best_epoch, training_settings
from feduplink.validation import usable_device
from feduplink.workflows.training_files import write_training

CHECKPOINT_FILE = "checkpoint.safetensors"


def run(args: argparse.Namespace) -> None:
    """Train, then write the best policy, plots and ``metrics.json``."""
    directory = output_directory(args)
    if args.policy == LearnedSchedule.name:
        train_phases.run(args, directory)
        return
    checkpoint = directory / CHECKPOINT_FILE
    check_beginning(checkpoint, "a training run", resume=args.resume)
    kind = policy_class(POLICIES.find(args.policy))
    if issubclass(kind, UnrolledPolicy):
        train_pdx.run(args, directory, checkpoint)
        return
    if not issubclass(kind, NeuralPolicy):
        raise InputError(
            f"policy: {args.policy} has nothing to train; accepted: {', '.join(trainable())}, or "
            "a subclass of feduplink.policies.NeuralPolicy."
        )
    for name in ("steps", "everything"):
        if getattr(args, name):
            raise InputError(f"{name}: an option of pdx; accepted for pdg and pdm: epochs.")
    preset: PresetName = args.preset or "ours"
    settings = training_settings(kind, preset, **explicit_fields(args, TrainingSettings))
    architecture = _architecture(args, Preset.for_policy(kind, preset).architecture)
    device = usable_device(args.device)
    scenario, channels = channels_from(args)
    training = Training(
        kind.initialised(scenario, args.seed, architecture).to(device),
        TrainingData.from_source(channels),
        settings,
        seed=args.seed,
    )
    if args.resume:
        training.resume(checkpoint)
    warn_of(check_reachable(training.problem, scenario, channels.training))
    with resume_hint(checkpoint):
        training.run(_logs(args, directory), checkpoint)
    training.policy.cpu()
    test = write_training(directory, training, channels, seed=args.seed)

    out = console()
    best = best_epoch(training.history)
    out.print(f"best epoch {best.number + 1} of {len(training.history)}; on the test channels:")
    table = comparison_table({kind.name: test.judgement}, scenario, notes=channels.notes)
    out.print(terminal_table(table))
    out.print(f"policy, history.csv, plots and metrics.json in {directory}")


def trainable() -> dict[str, type[Policy]]:
    """Registered policies that can be trained, by name."""
    kinds = {name: POLICIES.find(name) for name in POLICIES.names()}
    classes = {name: kind for name, kind in kinds.items() if isinstance(kind, type)}
    return {n: k for n, k in classes.items() if issubclass(k, NeuralPolicy | UnrolledPolicy)}


def _architecture(args: argparse.Namespace, preset: Architecture) -> Architecture:
    """The preset's architecture with the explicit options on top."""
    explicit = explicit_fields(args, GraphArchitecture)
    accepted = type(preset).model_fields
    for name in explicit.keys() - accepted.keys():
        raise InputError(f"{name}: {args.policy} has no such option; accepted for pdg only.")
    return type(preset)(**{**preset.model_dump(), **explicit})


def _logs(args: argparse.Namespace, directory: Path) -> list[Callback]:
    logs: list[Callback] = []
    if args.tensorboard:
        try:
            logs.append(TensorBoardLog(directory / "tensorboard"))
        except ModuleNotFoundError:
            raise InputError(
                "tensorboard: not installed; accepted after pip install 'feduplink[track]'."
            ) from None
    logs.append(CsvLog(directory / "history.csv"))
    return logs
