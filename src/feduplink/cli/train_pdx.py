"""``feduplink train --policy pdx``: train the network, then find the scenario's multipliers."""

from __future__ import annotations

import argparse
from pathlib import Path

from feduplink.cli.channel_source import channels_from
from feduplink.cli.console import console
from feduplink.cli.optimum import warn_of
from feduplink.cli.options import explicit_fields
from feduplink.cli.tables import terminal_table
from feduplink.errors import InputError
from feduplink.optimum import check_reachable
from feduplink.policies import UnrolledNetwork, UnrolledPolicy
from feduplink.problem import Problem
from feduplink.reporting.comparison import comparison_table
from feduplink.settings import GraphArchitecture, NetworkSettings, TrainingSettings
from feduplink.storage.run_directory import resume_hint
from feduplink.training import Curriculum, NetworkTraining, OneScenario, TunedProblems
from feduplink.validation import usable_device
from feduplink.workflows.training_files import write_network_training

#: Options of primal-dual training that mean the same here.
_SHARED = ("batch_size", "learning_rate")


def run(args: argparse.Namespace, directory: Path, checkpoint: Path) -> None:
    """Train, calibrate, write the policy, its histogram and ``metrics.json``."""
    settings = _settings(args)
    device = usable_device(args.device)
    scenario, channels = channels_from(args)
    warn_of(check_reachable(Problem.from_scenario(scenario), scenario, channels.training))
    recorded = channels.training if channels.recorded else None
    curriculum: Curriculum = (
        TunedProblems(seed=args.seed) if args.everything else OneScenario(scenario, recorded)
    )
    network = UnrolledNetwork.initialised(args.seed).to(device)
    training = NetworkTraining(network, curriculum, settings, seed=args.seed)
    if args.resume:
        training.resume(checkpoint)
    with resume_hint(checkpoint):
        training.run(checkpoint=checkpoint)
    out = console()
    out.print("network trained; finding the multipliers of the scenario ...")
    if recorded is None:
        policy = UnrolledPolicy.calibrated_on_draws(network.cpu(), scenario, seed=args.seed)
    else:
        policy = UnrolledPolicy.calibrated(network.cpu(), scenario, recorded, seed=args.seed)
    made_with = {**settings.model_dump(mode="json"), "everything": args.everything}
    test = write_network_training(directory, policy, channels, made_with, seed=args.seed)
    table = comparison_table({policy.name: test.judgement}, scenario, notes=channels.notes)
    out.print(terminal_table(table))
    out.print(f"policy, histogram and metrics.json in {directory}")


def _settings(args: argparse.Namespace) -> NetworkSettings:
    explicit = explicit_fields(args, TrainingSettings)
    primal_dual = {**explicit, **explicit_fields(args, GraphArchitecture)}
    if args.preset:
        primal_dual["preset"] = args.preset
    for name in sorted(primal_dual.keys() - set(_SHARED)):
        raise InputError(
            f"{name}: an option of primal-dual training; accepted for pdx: steps, "
            f"{', '.join(_SHARED)}."
        )
    if args.tensorboard:
        raise InputError("tensorboard: accepted for pdg and pdm only.")
    if args.steps is not None:
        explicit["steps"] = args.steps
    return NetworkSettings(**explicit)
