"""Options of ``feduplink train``."""

from __future__ import annotations

import argparse
from typing import get_args

from feduplink.cli.argument_types import one_of, whole_number
from feduplink.cli.options import (
    add_channels_option,
    add_common_options,
    add_device_option,
    add_model_options,
    add_scenario_options,
    add_split_option,
)
from feduplink.registry import TRAINABLE
from feduplink.settings import GraphArchitecture, NetworkSettings, PresetName, TrainingSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--policy",
        required=True,
        metavar="NAME",
        help=f"what to train: {', '.join(TRAINABLE)}, learned-schedule, or package.module:Class of "
        "your own",
    )
    add_channels_option(
        parser,
        "the policy learns on the first, the best epoch is chosen by the second, and the third is "
        "reported on",
    )
    add_common_options(parser, "train")
    add_split_option(parser)
    add_device_option(parser)
    parser.add_argument(
        "--resume", action="store_true", help="continue the run in --out from its checkpoint"
    )
    parser.add_argument(
        "--tensorboard", action="store_true", help="also log for TensorBoard (extra: track)"
    )
    _add_pdx_options(parser)
    group = parser.add_argument_group(
        "training of pdg and pdm (batch size and learning rate also of pdx)",
        "The defaults are of the preset ours. Options given here override those of a preset.",
    )
    group.add_argument(
        "--preset",
        type=one_of(get_args(PresetName)),
        choices=get_args(PresetName),
        help="how to train: ours, or the equations and values as the paper writes them "
        "(default: ours)",
    )
    add_model_options(group, TrainingSettings)
    add_model_options(group, GraphArchitecture)
    add_scenario_options(parser)


def _add_pdx_options(parser: argparse.ArgumentParser) -> None:
    """The options that only ``pdx`` has."""
    group = parser.add_argument_group("training of pdx")
    steps = NetworkSettings.model_fields["steps"]
    group.add_argument(
        "--steps",
        type=whole_number(100, 10**7),
        metavar="N",
        help=f"{steps.description} (default: {steps.default})",
    )
    group.add_argument(
        "--everything",
        action="store_true",
        help="train for cells, radios, objectives, weights and thresholds of all kinds, as the "
        "shipped weights were; the scenario then only sets the multipliers",
    )
