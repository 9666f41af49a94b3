"""Options that commands share, and options made from the fields of a validated model."""

from __future__ import annotations

import argparse
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from feduplink.cli.argument_types import positive_numbers, whole_number
from feduplink.errors import InputError
from feduplink.registry import Registry
from feduplink.scenario import Scenario, float64, shipped_scenarios
from feduplink.settings import CHANNELS_PER_SPLIT

#: Weights of the paper's network for digits: the model of limits on time and energy, where no
#: other one is named.
MODEL_WEIGHTS = 39_760

#: Options with a second, shorter name.
_SHORT_NAMES = {"static_power_w": "--static-power"}


def add_common_options(parser: argparse.ArgumentParser, command: str) -> None:
    """``--seed`` and ``--out``."""
    add_seed_option(parser)
    add_out_option(parser, command)


def add_out_option(parser: argparse.ArgumentParser, command: str) -> None:
    """``--out``."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs", command),
        metavar="DIR",
        help=f"directory for what the command writes (default: runs/{command})",
    )


def add_seed_option(parser: argparse.ArgumentParser) -> None:
    """``--seed``."""
    parser.add_argument(
        "--seed",
        type=whole_number(0, 2**63 - 1),
        default=0,
        metavar="N",
        help="seed of all random numbers (default: 0)",
    )


def add_split_option(parser: argparse.ArgumentParser) -> None:
    """``--channels-per-split``."""
    parser.add_argument(
        "--channels-per-split",
        type=whole_number(1, 10**7),
        default=CHANNELS_PER_SPLIT,
        metavar="N",
        help=f"channels for each of training, validation and test (default: {CHANNELS_PER_SPLIT})",
    )


def add_channels_option(parser: argparse.ArgumentParser, use: str) -> None:
    """``--channels``; ``use`` says what the parts of a recording are used for."""
    parser.add_argument(
        "--channels",
        metavar="FILE",
        help="recorded channels (HDF5) instead of drawn ones; the workers are those of the file. "
        f"Of every three channels in turn one is for training, one for validation and one for the "
        f"test; {use}",
    )


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """``--data``."""
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="directory of the data sets (default: that of FEDUPLINK_DATA)",
    )


def add_device_option(parser: argparse._ActionsContainer) -> None:
    """``--device``."""
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")


def add_scenario_options(parser: argparse.ArgumentParser) -> None:
    """``--scenario`` and one option for every field of :class:`Scenario`."""
    group = parser.add_argument_group("scenario")
    group.add_argument(
        "--scenario",
        metavar="FILE",
        help="YAML file, or one of the shipped scenarios "
        f"{', '.join(shipped_scenarios())}; the options below override it",
    )
    add_model_options(group, Scenario)
    for option, unit, instead in (
        ("--time-max-s", "longest upload, s", "--rate-min"),
        ("--energy-max-j", "most energy per upload, J", "--ee-min"),
    ):
        group.add_argument(
            option,
            type=positive_numbers,
            metavar="X[,X...]",
            help=f"{unit}, instead of {instead}: the threshold at which an upload at the mean "
            f"{'rate' if instead == '--rate-min' else 'efficiency'} takes just that; one value or "
            "one per worker",
        )
    group.add_argument(
        "--model-bits",
        type=positive_numbers,
        metavar="X[,X...]",
        help="bits of one upload, for these two limits; one value or one per worker (default: "
        f"those of the model that is federated, else of {MODEL_WEIGHTS} weights)",
    )


def scenario_from(
    args: argparse.Namespace,
    weights_of_model: Callable[[Scenario], int] = lambda _scenario: MODEL_WEIGHTS,
    **fixed: Any,
) -> Scenario:
    """The scenario of ``--scenario``, the explicit options on top, and ``fixed`` on top of all.

    Limits on time and energy become thresholds for uploads of the model that the command is
    about, whose weights ``weights_of_model`` counts.
    """
    base = Scenario.from_yaml(args.scenario) if args.scenario else Scenario()
    explicit = explicit_fields(args, Scenario)
    scenario = base.replace(**{**explicit, **fixed})
    if args.time_max_s is None and args.energy_max_j is None:
        if args.model_bits is not None:
            raise InputError("model-bits: accepted only with time-max-s or energy-max-j.")
        return scenario
    for limit, threshold in (("time_max_s", "rate_min"), ("energy_max_j", "ee_min")):
        given = getattr(args, limit)
        if given is not None and threshold in explicit:
            names = f"{limit} and {threshold}".replace("_", "-")
            raise InputError(f"{names} say the same twice; accepted: one of them.")
        _check_length(limit, given, scenario.workers)
    _check_length("model_bits", args.model_bits, scenario.workers)
    bits, time_max_s, energy_max_j = (
        None if values is None else float64(values)
        for values in (args.model_bits, args.time_max_s, args.energy_max_j)
    )
    return scenario.with_limits(
        scenario.model_bits(weights_of_model(scenario)) if bits is None else bits,
        time_max_s=time_max_s,
        energy_max_j=energy_max_j,
    )


def _check_length(name: str, values: float | list[float] | None, workers: int) -> None:
    if isinstance(values, list) and len(values) != workers:
        raise InputError(
            f"{name.replace('_', '-')}: {len(values)} values; accepted: one, or one for each of "
            f"the {workers} workers."
        )


def add_model_options(group: argparse._ActionsContainer, model: type[BaseModel]) -> None:
    """One option ``--field-name`` for every field of ``model``; lists are comma-separated."""
    for name, field in model.model_fields.items():
        options = [f"--{name.replace('_', '-')}"]
        if name in _SHORT_NAMES:
            options.append(_SHORT_NAMES[name])
        default = "none" if field.default is None else f"{field.default}"
        description = f"{field.description}{_names_of(field)} (default: {default})"
        shared: dict[str, Any] = {
            "dest": _destination(model, name),
            "default": argparse.SUPPRESS,
            "help": description.replace("%", "%%"),
        }
        if field.annotation is bool:
            group.add_argument(*options, action=argparse.BooleanOptionalAction, **shared)
        else:
            group.add_argument(*options, type=_split, metavar=_metavar(field), **shared)


def explicit_fields(args: argparse.Namespace, model: type[BaseModel]) -> dict[str, Any]:
    """The fields of ``model`` given on the command line, for the model itself to validate."""
    given = vars(args)
    destinations = {name: _destination(model, name) for name in model.model_fields}
    return {name: given[dest] for name, dest in destinations.items() if dest in given}


def _destination(model: type[BaseModel], name: str) -> str:
    """Where argparse keeps a field; the model's name keeps fields of two models apart."""
    return f"{model.__name__}.{name}"


def _split(text: str) -> str | list[str] | None:
    if text.lower() == "none":
        return None
    if "," in text:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _names_of(field: FieldInfo) -> str:
    """The names that a field takes from a registry, to be added to its description."""
    registries = [item for item in field.metadata if isinstance(item, Registry)]
    names = [name for registry in registries for name in registry.names()]
    return f": {', '.join(names)} or package.module:Object" if names else ""


def _metavar(field: FieldInfo) -> str:
    """``{a,b}`` for a choice of names, else the kind of value."""
    if _names_of(field):
        return "NAME"
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return "{" + ",".join(get_args(annotation)) + "}"
    if get_origin(annotation) in (Union, types.UnionType):
        listed = any(get_origin(option) is tuple for option in get_args(annotation))
        return "X[,X...]" if listed else "X"
    return "N" if annotation is int else "X"
