"""Options of the command line, made from the signature of a workflow.

Nothing here imports PyTorch, so that every ``--help`` is there at once.
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

#: Options with a second, shorter name.
_SHORT_NAMES = {
    "static_power_w": "--static-power",
    "noise_power_w": "--noise-power",
    "pmax_dbw": "--pmax",
}
#: Largest configuration file, bytes.
_MAX_CONFIG_BYTES = 1 << 20
_Positive = Annotated[float, Field(gt=0)]
_Positives = _Positive | tuple[_Positive, ...] | None
#: Names of options about the configuration file itself.
_ABOUT_CONFIG = ("config", "print_config")
_Model = TypeVar("_Model", bound=ValidatedModel)


class UploadLimits(ValidatedModel):
    """Limits on one upload, which replace the thresholds of rate and energy efficiency."""

    time_max_s: _Positives = Field(
        None,
        description="Longest upload, s, instead of --rate-min: the threshold at which an upload at "
        "the mean rate takes this time; one value or one per worker",
    )
    energy_max_j: _Positives = Field(
        None,
        description="Largest energy of an upload, J, instead of --ee-min: the threshold at which "
        "an upload at the mean efficiency takes this energy; one value or one per worker",
    )
    model_bits: _Positives = Field(
        None,
        description="Bits of one upload for these two limits; one value or one per worker "
        f"(default: those of the federated model, else of {MODEL_WEIGHTS} weights)",
    )


class Common(ValidatedModel):
    """Options of every command that are not its workflow's."""

    out: Path | None = Field(None, description="Directory for the files of the result")
    imports: tuple[str, ...] = Field((), description="Modules to import first")
    units: UnitSystem = Field("engineering", description="Units of tables, plots and pages")


class Given(NamedTuple):
    """The options of a command line and its ``--config`` file, by group.

    Attributes:
        options: of the workflow, validated; without those that are not given.
        base: the name or file of ``--scenario``, or the fields of a configuration file; None: the
            default scenario.
        fields: what the command line changes of it, to be validated by the scenario.
        limits: of an upload.
        common: options of every command.
        prints_config: whether they are to be printed only.
    """

    options: dict[str, Any]
    base: Any
    fields: dict[str, Any]
    limits: UploadLimits
    common: Common
    prints_config: bool

    def has_scenario(self) -> bool:
        """Whether anything is given of the scenario."""
        return self.base is not None or bool(self.fields or self.limits.model_fields_set)


def add_workflow_options(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    """One option per field of the workflow's options, then those of the scenario."""
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
            if name not in shown:  # the first of two groups that share an option has it
                _add_field(group, name, field)
        shown |= fields.keys()
    if takes(function, "scenario"):
        add_scenario_options(parser)


def add_scenario_options(parser: argparse.ArgumentParser) -> None:
    """``--scenario``, the limits on uploads, and one option for every field of the scenario."""
    group = parser.add_argument_group("scenario")
    group.add_argument(
        "--scenario",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="YAML file, or one of the shipped scenarios "
        f"{', '.join(shipped_scenarios())}; the options below override it",
    )
    for model in (Scenario, UploadLimits):
        for name, field in model.model_fields.items():
            _add_field(group, name, field)


def add_common_options(parser: argparse.ArgumentParser, out: Path | None) -> None:
    """``--out``, ``--config``, ``--print-config`` and ``--import``."""
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
        help="YAML file with options of this command, as --print-config writes it; options of the "
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
        help="Import a module of your own first, for what it registers and for saved policies of "
        "its classes; may be repeated",
    )


def given_options(args: argparse.Namespace, function: Callable[..., Any], prog: str) -> Given:
    """The options of the command line, on top of those of ``--config``."""
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
            raise InputError(f"{shown}: missing; see {prog} --help.")
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
    """The model with those of the values that are its fields."""
    return model(**{name: values[name] for name in model.model_fields if name in values})


def read_config(path: str) -> dict[str, Any]:
    """The options in a YAML file, by name."""
    content = parse_mapping(
        read_limited(Path(path), "config", _MAX_CONFIG_BYTES), f"config: {path}"
    )
    return {name.replace("-", "_"): value for name, value in content.items()}


def config_text(function: Callable[..., Any], given: Given, scenario: Scenario | None) -> str:
    """All options of a call as YAML: keyword arguments of the workflow, to be read back."""
    content: dict[str, Any] = {}
    if scenario is not None:
        # Weights that are not given may be those of the data: as the scenario's they would be used.
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
    """The scenario with the fields of the command line on top, and ``fixed`` on top of all.

    Limits on time and energy become thresholds for uploads of the model that the command is about,
    with as many weights as ``weights_of_model`` counts.
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
            raise InputError(f"{names} say the same twice; accepted: one of them.")
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
    told = "" if is_clear or "(default: " in str(field.description) else f" (default: {default})"
    how: dict[str, Any] = {
        "default": argparse.SUPPRESS,
        "help": f"{field.description}{_names_of(field)}{told}".replace("%", "%%"),
    }
    if form.positional:
        # Never required here: a configuration file may have it.
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
    return f"--{name.replace('_', '-')}"


def _shown(default: Any) -> str:
    """A default as it is typed."""
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
    """The names that an option takes from registries."""
    registries = [item for item in field.metadata if isinstance(item, Registry)]
    return [name for registry in registries for name in registry.names()]


def _names_of(field: FieldInfo) -> str:
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
    """``{a,b}`` for a choice of names, else the kind of value."""
    if names_of(field):
        return "NAME"
    first, *others = kinds_of(field)
    if get_origin(first) is Literal and not others:
        return "{" + ",".join(get_args(first)) + "}"
    if any(get_origin(kind) is tuple for kind in (first, *others)):
        return "X[,X...]"
    return "X" if others else {int: "N", str: "TEXT", Path: "FILE"}.get(first, "X")


#: After a comma another name is completed. Bash takes what a function whose name has ``_file``
#: prints as paths, and writes a slash after directories.
_BASH = """{function}() {{
  local last="${{1##*,}}"
  compgen -P "${{1%"$last"}}" -W {names} -- "$last"
  compgen -f -- "$1"
}}"""
_ZSH = """{function}() {{
  _alternative {names} 'files:file:_files'
}}"""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a parser that has all commands with their options.

    Completed are commands, options, registered names, choices and files.
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
    if shell == "zsh":
        return _ZSH.format(function=function, names=shlex.quote(f"names:name:({' '.join(names)})"))
    return _BASH.format(function=function, names=shlex.quote(" ".join(names)))
