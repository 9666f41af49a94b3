"""``feduplink train --policy learned-schedule``: train the network of learned schedules."""

from __future__ import annotations

import argparse
from pathlib import Path

from feduplink.cli.console import console
from feduplink.cli.options import explicit_fields
from feduplink.errors import InputError
from feduplink.scheduling import save_phase_network
from feduplink.settings import TrainingSettings
from feduplink.storage.run_directory import write_metrics
from feduplink.training.phase_network import PhaseSettings, train_phase_network
from feduplink.validation import usable_device

WEIGHTS_FILE = "phase_network.safetensors"

#: Options of primal-dual training that mean the same here.
_SHARED = ("batch_size", "learning_rate")


def run(args: argparse.Namespace, directory: Path) -> None:
    """Train for cells and prices of all kinds, write the weights and ``metrics.json``."""
    explicit = explicit_fields(args, TrainingSettings)
    for name in sorted(explicit.keys() - set(_SHARED)):
        raise InputError(
            f"{name}: an option of primal-dual training; accepted for {args.policy}: steps, "
            f"{', '.join(_SHARED)}."
        )
    if args.resume:
        raise InputError(f"resume: accepted for pdg, pdm and pdx; {args.policy} begins anew.")
    if args.steps is not None:
        explicit["steps"] = args.steps
    settings = PhaseSettings(**explicit)
    device = usable_device(args.device)
    network = train_phase_network(settings, seed=args.seed, device=device).cpu()
    save_phase_network(network, directory / WEIGHTS_FILE)
    write_metrics(
        directory,
        {
            "title": "training of learned schedules",
            "settings": settings.model_dump(mode="json"),
            "seed": args.seed,
        },
    )
    console().print(f"{WEIGHTS_FILE} and metrics.json in {directory}")
