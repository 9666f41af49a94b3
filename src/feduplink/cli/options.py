"""Options of the command line, derived from the signatures of workflows.

Importing this module does not import PyTorch, so that ``--help`` is immediate.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

import yaml
from pydantic import Field
from pydantic.fields import FieldInfo

from feduplink.errors import InputError, did_you_mean
from feduplink.registry import Registry
from feduplink.scenario import MODEL_WEIGHTS, Scenario, shipped_scenarios
from feduplink.storage.files import read_limited
from feduplink.units import UnitSystem
from feduplink.validation import (
    ValidatedModel,
    import_extra,
    is_list,
    kinds_of,
    parse_mapping,
    split_text,
)
from feduplink.workflows.options import (
    command_line,
    field_groups,
    is_required,
    options_of,
    takes,
)

#: Short names of options.
_SHORT_NAMES = {
    "static_power_w": "--static-power",
    "noise_power_w": "--noise-power",
    "pmax_dbw": "--pmax",
}
#: Maximum size of a configuration file, bytes.
_MAX_CONFIG_BYTES = 1 << 20
_Positive = Annotated[float, Field(gt=0)]
_Positives = _Positive | tuple[_Positive, ...] | None
#: Options that concern the configuration file.
_ABOUT_CONFIG = ("config", "print_config")
_Model = TypeVar("_Model", bound=ValidatedModel)


class UploadLimits(ValidatedModel):
    """Limits on one upload, from which thresholds on rate and energy efficiency are computed."""

    time_max_s: _Positives = Field(
        None,
        description="Maximum time of an upload, s, instead of --rate-min: sets the threshold at "
        "which an upload at the mean rate takes this time; one value or one per worker",
    )
    energy_max_j: _Positives = Field(
        None,
        description="Maximum energy of an upload, J, instead of --ee-min: sets the threshold at "
        "which an upload at the mean efficiency takes this energy; one value or one per worker",
    )
    model_bits: _Positives = Field(
        None,
        description="Size of one upload for these two limits, bits; one value or one per worker "
        f"(default: that of the federated model, else of {MODEL_WEIGHTS} weights)",
    )


class Common(ValidatedModel):
    """Options of every command beside those of its workflow."""

    out: Path | None = Field(None, description="Directory for the files of the result")
    imports: tuple[str, ...] = Field((), description="Modules to import first")
    units: UnitSystem | None = Field(None, description="Units of tables, plots and pages")


class Given(NamedTuple):
    """Options of a command line and its ``--config`` file, by group.

    Attributes:
        options: validated options of the workflow that are given.
        base: name or file of ``--scenario``, or fields of the scenario in the configuration file;
            None: the default scenario.
        fields: fields of the scenario given on the command line, not yet validated.
        limits: limits on an upload.
        common: options of every command.
        prints_config: whether ``--print-config`` is given.
    """

    options: dict[str, Any]
    base: Any
    fields: dict[str, Any]
    limits: UploadLimits
    common: Common
    prints_config: bool

    def has_scenario(self) -> bool:
        """Whether a scenario or any of its fields is given."""
        return self.base is not None or bool(self.fields or self.limits.model_fields_set)


def add_workflow_options(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    """Add the options of a workflow and, if it has one, of the scenario to a parser."""
    model = options_of(function)
    groups = field_groups(function)
    grouped = {name for fields in groups.values() for name in fields}
    for name, field in model.model_fields.items():
        if name not in grouped:
            _add_field(parser, name, field, required=is_required(function, name))
    shown: set[str] = set()
    for title, fields in groups.items():
        group = parser.add_argument_group(title)
        for name, field in fields.items():
            if name not in shown:  # an option shared by two groups is listed in the first
                _add_field(group, name, field)
        shown |= fields.keys()
    if takes(function, "scenario"):
        add_scenario_options(parser)


def add_scenario_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--scenario``, the limits on uploads, and an option per field of the scenario."""
    group = parser.add_argument_group("scenario")
    group.add_argument(
        "--scenario",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="YAML file, or one of the scenarios of the package: "
        f"{', '.join(shipped_scenarios())}; the options below override it",
    )
    for model in (Scenario, UploadLimits):
        for name, field in model.model_fields.items():
            _add_field(group, name, field)


def add_common_options(parser: argparse.ArgumentParser, out: Path | None) -> None:
    """Add the options of every command; ``out`` is the default of ``--out``, None omits it."""
    if out is not None:
        parser.add_argument(
            "--out",
            type=Path,
            metavar="DIR",
            default=argparse.SUPPRESS,
            help=f"Directory for the files of the result (default: {out})",
        )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="YAML file with options of this command, as --print-config prints it; options of the "
        "command line override it",
    )
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="Print all options of this call as YAML, without running it",
    )
    parser.add_argument(
        "--units",
        metavar="{engineering,nats}",
        default=argparse.SUPPRESS,
        help="Units of tables, plots and pages: dBm, bit/s/Hz and Mbit/J, or the paper's dBW, "
        "nats/s/Hz and nats/s/Hz/W; options and files of numbers do not change "
        "(default: engineering)",
    )
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        metavar="MODULE",
        default=argparse.SUPPRESS,
        help="Import a module first, which registers objects or defines classes of saved policies; "
        "may be repeated",
    )


def given_options(args: argparse.Namespace, function: Callable[..., Any], prog: str) -> Given:
    """Combine and validate the options of the command line and ``--config``.

    Args:
        args: parsed command line; its options override those of the file.
        function: workflow of the command.
        prog: name of the command, for error messages.

    Returns:
        The options by group.

    Raises:
        InputError: if an option is unknown, missing or invalid.
    """
    configured = read_config(args.config) if args.config else {}
    model = options_of(function)
    accepted = {*model.model_fields, *Common.model_fields}
    if takes(function, "scenario"):
        accepted |= {"scenario", *UploadLimits.model_fields}
    for name in configured:
        if name not in accepted:
            guess = did_you_mean(name, accepted)
            raise InputError(f"config: {name}: no such option{guess} see {prog} --help.")
    own = {name: value for name, value in vars(args).items() if name not in _ABOUT_CONFIG}
    both = {**configured, **own}
    for name, field in model.model_fields.items():
        if name not in both and is_required(function, name):
            form = command_line(field)
            shown = form.metavar if form.positional else _flag(name)
            raise InputError(f"{shown} is required; see {prog} --help.")
    options = _fields_of(model, both)
    return Given(
        {name: getattr(options, name) for name in options.model_fields_set},
        both.get("scenario"),
        {name: value for name, value in own.items() if name in Scenario.model_fields},
        _fields_of(UploadLimits, both),
        _fields_of(Common, both),
        args.print_config,
    )


def _fields_of(model: type[_Model], values: Mapping[str, Any]) -> _Model:
    """Model of the values that are its fields."""
    return model(**{name: values[name] for name in model.model_fields if name in values})


def read_config(path: str) -> dict[str, Any]:
    """Options in a YAML file, by name with underscores."""
    content = parse_mapping(
        read_limited(Path(path), "config", _MAX_CONFIG_BYTES), f"config: {path}"
    )
    return {name.replace("-", "_"): value for name, value in content.items()}


def config_text(function: Callable[..., Any], given: Given, scenario: Scenario | None) -> str:
    """All options of a call as YAML, for ``--config``: keyword arguments of the workflow."""
    content: dict[str, Any] = {}
    if scenario is not None:
        # Weights that are not given may be replaced by those of the data; listing them would not
        # allow that.
        unknown = {"weights"} - scenario.model_fields_set
        content["scenario"] = scenario.model_dump(mode="json", exclude=unknown)
    grouped = {name for fields in field_groups(function).values() for name in fields}
    options = options_of(function)(**given.options).model_dump(mode="json")
    content |= {n: v for n, v in options.items() if n not in grouped or n in given.options}
    content |= given.common.model_dump(mode="json", exclude_unset=True)
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def make_scenario(
    given: Given, weights_of_model: Callable[[Scenario], int], **fixed: Any
) -> Scenario:
    """Build the scenario of a command.

    Args:
        given: options; fields of the command line override those of the base scenario.
        weights_of_model: function that returns the number of weights of the uploaded model, by
            which limits on time and energy are converted to thresholds.
        fixed: fields that override all others.

    Returns:
        The scenario.

    Raises:
        InputError: if a field or a limit is not accepted.
    """
    if isinstance(given.base, Mapping):
        scenario = Scenario(**{str(name): value for name, value in given.base.items()})
    else:
        scenario = Scenario() if given.base is None else Scenario.load(str(given.base))
    scenario, limits = scenario.replace(**{**given.fields, **fixed}), given.limits
    if limits.time_max_s is None and limits.energy_max_j is None:
        if limits.model_bits is not None:
            raise InputError("model-bits: accepted only with time-max-s or energy-max-j.")
        return scenario
    for limit, threshold in (("time_max_s", "rate_min"), ("energy_max_j", "ee_min")):
        if getattr(limits, limit) is not None and threshold in given.fields:
            names = f"{limit} and {threshold}".replace("_", "-")
            raise InputError(f"{names} were both given; accepted: one of them.")
    for name, values in limits:
        if isinstance(values, tuple) and len(values) != scenario.workers:
            raise InputError(
                f"{name.replace('_', '-')}: {len(values)} values; accepted: one, or one for each "
                f"of the {scenario.workers} workers."
            )
    bits = limits.model_bits
    return scenario.with_limits(
        scenario.model_bits(weights_of_model(scenario)) if bits is None else bits,
        time_max_s=limits.time_max_s,
        energy_max_j=limits.energy_max_j,
    )


def _add_field(
    group: argparse._ActionsContainer, name: str, field: FieldInfo, *, required: bool = False
) -> None:
    form, is_listed = command_line(field), any(map(is_list, kinds_of(field)))
    default = form.default or _shown(field.default)
    is_clear = required or not default or (field.annotation is bool and not field.default)
    shown = "" if is_clear or "(default: " in str(field.description) else f" (default: {default})"
    how: dict[str, Any] = {
        "default": argparse.SUPPRESS,
        "help": f"{field.description}{_names_of(field)}{shown}".replace("%", "%%"),
    }
    if form.positional:
        # Not required by argparse, because the configuration file may contain it.
        nargs = "*" if is_listed else "?"
        group.add_argument(name, metavar=form.metavar, nargs=nargs, **how)
        return
    if field.annotation is bool:
        how["action"] = argparse.BooleanOptionalAction if field.default else "store_true"
    else:
        how["metavar"] = form.metavar or _metavar(field)
        if form.nargs:
            how |= {"nargs": form.nargs, "action": "append" if form.repeated else "store"}
        else:
            how["type"] = _split_text_or_none if is_listed else _text_or_none
    short = [_SHORT_NAMES[name]] if name in _SHORT_NAMES else []
    action = group.add_argument(_flag(name), *short, dest=name, **how)
    action.names = names_of(field)  # type: ignore[attr-defined]  # for completion


def _flag(name: str) -> str:
    """Name of an option on the command line."""
    return f"--{name.replace('_', '-')}"


def _shown(default: Any) -> str:
    """A default as it is typed on the command line."""
    if default is None:
        return "none"
    if isinstance(default, tuple | list):
        return ",".join(map(_shown, default))
    return (
        f"{default:g}" if isinstance(default, float) and default == int(default) else f"{default}"
    )


def _text_or_none(text: str) -> str | None:
    return None if text.lower() == "none" else text


def _split_text_or_none(text: str) -> str | list[str] | None:
    return split_text(text) if "," in text else _text_or_none(text)


def names_of(field: FieldInfo) -> list[str]:
    """Names that an option accepts from registries."""
    registries = [item for item in field.metadata if isinstance(item, Registry)]
    return [name for registry in registries for name in registry.names()]


def _names_of(field: FieldInfo) -> str:
    """List of the accepted names with aliases, for the help."""
    aliases = {
        name: alias
        for item in field.metadata
        if isinstance(item, Registry)
        for alias, name in item.aliases.items()
        if ":" not in name
    }
    names = [f"{n} ({aliases[n]})" if n in aliases else n for n in names_of(field)]
    return f": {', '.join(names)} or package.module:Object" if names else ""


def _metavar(field: FieldInfo) -> str:
    """Placeholder of a value: ``{a,b}`` for a choice of names, or its type."""
    if names_of(field):
        return "NAME"
    first, *others = kinds_of(field)
    if get_origin(first) is Literal and not others:
        return "{" + ",".join(get_args(first)) + "}"
    if any(get_origin(kind) is tuple for kind in (first, *others)):
        return "X[,X...]"
    return "X" if others else {int: "N", str: "TEXT", Path: "FILE"}.get(first, "X")


#: Completion functions for comma-separated names and files. Bash treats the output of functions
#: with ``_file`` in their name as paths and appends a slash to directories.
_BASH = """{function}() {{
  local last="${{1##*,}}"
  compgen -P "${{1%"$last"}}" -W {names} -- "$last"
  compgen -f -- "$1"
}}"""
_ZSH = """{function}() {{
  _alternative {names} 'files:file:_files'
}}"""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Completion script for commands, options, registered names, choices and files.

    Args:
        parser: parser of all commands with their options.
        shell: ``bash`` or ``zsh``.

    Returns:
        The script.

    Raises:
        InputError: if the extra ``completion`` is not installed.
    """
    shtab = import_extra("shtab", "completion")
    paths = {
        "FILE": shtab.FILE,
        "FILE[:KEY]": shtab.FILE,
        "PROOF": shtab.FILE,
        "DIR": shtab.DIRECTORY,
    }
    functions: dict[str, str] = {}
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for command, declared in commands.choices.items():
        for action in declared._actions:
            names = getattr(action, "names", [])
            if action.dest == "scenario":
                names = shipped_scenarios()
            if names:
                function = f"_feduplink_{command}_{action.dest}_or_file"
                functions[function] = _completion_function(function, names, shell)
                action.complete = {shell: function}
            elif action.metavar in paths:
                action.complete = paths[action.metavar]
            elif str(action.metavar).startswith("{"):
                action.choices = action.metavar.strip("{}").split(",")
    preamble = "\n".join(functions.values())
    return str(shtab.complete(parser, shell=shell, preamble=preamble))


def _completion_function(function: str, names: Sequence[str], shell: str) -> str:
    """Shell function that completes names and files."""
    if shell == "zsh":
        return _ZSH.format(function=function, names=shlex.quote(f"names:name:({' '.join(names)})"))
    return _BASH.format(function=function, names=shlex.quote(" ".join(names)))
