"""``feduplink train``: learn a policy by primal–dual training."""

from __future__ import annotations

import argparse
from pathlib import Path

from feduplink.channels import draw_splits
from feduplink.cli import train_pdx
from feduplink.cli.console import console
from feduplink.cli.optimum import warn_of
from feduplink.cli.options import (
    add_common_options,
    add_device_option,
    add_model_options,
    add_scenario_options,
    add_split_option,
    explicit_fields,
    output_directory,
    scenario_from,
)
from feduplink.cli.resuming import check_beginning, resume_hint
from feduplink.cli.tables import terminal_table
from feduplink.comparison_table import comparison_table
from feduplink.device import usable_device
from feduplink.errors import InputError
from feduplink.learning import (
    PRESETS,
    TRAINABLE,
    CsvLog,
    TensorBoardLog,
    Training,
    TrainingData,
    TrainingSettings,
    best_epoch,
    training_settings,
)
from feduplink.observing import Observer
from feduplink.optimum import shut_out
from feduplink.policies import Architecture, GraphArchitecture
from feduplink.report.training import write_training

NAME = "train"
HELP = "train a policy on channels of a scenario"
EXAMPLE = "feduplink train --policy pdg --scenario interference-x2 --out runs/pdg-x2"

CHECKPOINT_FILE = "checkpoint.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--policy", choices=(*sorted(TRAINABLE), "pdx"), required=True, help="what to train"
    )
    add_common_options(parser, NAME)
    add_split_option(parser)
    add_device_option(parser)
    parser.add_argument(
        "--resume", action="store_true", help="continue the run in --out from its checkpoint"
    )
    parser.add_argument(
        "--tensorboard", action="store_true", help="also log for TensorBoard (extra: track)"
    )
    train_pdx.add_arguments(parser)
    rates = ", ".join(f"{p} {v.settings.learning_rate:g}" for p, v in PRESETS["ours"].items())
    group = parser.add_argument_group(
        "training of pdg and pdm (batch size and learning rate also of pdx)",
        f"The defaults are of the preset ours; its learning rates are {rates}. Options given here "
        "override those of a preset.",
    )
    group.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        help="how to train: ours, or the equations and values as the paper writes them "
        "(default: ours)",
    )
    add_model_options(group, TrainingSettings)
    add_model_options(group, GraphArchitecture)
    add_scenario_options(parser)


def run(args: argparse.Namespace) -> None:
    """Train, then write the best policy, plots and ``metrics.json``."""
    scenario, directory = scenario_from(args), output_directory(args)
    checkpoint = directory / CHECKPOINT_FILE
    check_beginning(checkpoint, "a training run", resume=args.resume)
    if args.policy == "pdx":
        train_pdx.run(args, scenario, directory, checkpoint)
        return
    for name in ("steps", "everything"):
        if getattr(args, name):
            raise InputError(f"{name}: an option of pdx; accepted for pdg and pdm: epochs.")
    preset = args.preset or "ours"
    settings = training_settings(args.policy, preset, **explicit_fields(args, TrainingSettings))
    architecture = _architecture(args, PRESETS[preset][args.policy].architecture)
    device = usable_device(args.device)
    splits = draw_splits(scenario, args.channels_per_split, seed=args.seed)
    training = Training(
        TRAINABLE[args.policy].initialised(scenario, args.seed, architecture).to(device),
        TrainingData(splits.training, splits.validation),
        settings,
        seed=args.seed,
    )
    if args.resume:
        training.resume(checkpoint)
    warn_of(shut_out(scenario, splits.training))
    with resume_hint(checkpoint):
        training.run(_logs(args, directory), checkpoint)
    training.policy.cpu()
    test = write_training(directory, training, splits, seed=args.seed)

    out = console()
    best = best_epoch(training.history)
    out.print(f"best epoch {best.number + 1} of {len(training.history)}; on the test channels:")
    out.print(terminal_table(comparison_table({args.policy: test.judgement}, scenario)))
    out.print(f"policy, history.csv, plots and metrics.json in {directory}")


def _architecture(args: argparse.Namespace, preset: Architecture) -> Architecture:
    """The preset's architecture with the explicit options on top."""
    explicit = explicit_fields(args, GraphArchitecture)
    accepted = type(preset).model_fields
    for name in explicit.keys() - accepted.keys():
        raise InputError(f"{name}: {args.policy} has no such option; accepted for pdg only.")
    return type(preset)(**{**preset.model_dump(), **explicit})


def _logs(args: argparse.Namespace, directory: Path) -> list[Observer]:
    logs: list[Observer] = []
    if args.tensorboard:
        try:
            logs.append(TensorBoardLog(directory / "tensorboard"))
        except ModuleNotFoundError:
            raise InputError(
                "tensorboard: not installed; accepted after pip install 'feduplink[track]'."
            ) from None
    logs.append(CsvLog(directory / "history.csv"))
    return logs
