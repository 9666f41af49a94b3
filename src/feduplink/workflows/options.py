"""The options of a workflow, declared once in the signature of its function.

A parameter annotated with ``Annotated[type, Field(description=..., ge=...)]`` is an option. Its
default, its range and its description are those of the command line, of ``--config`` files, of
sweeps and of calls from Python. Nothing here imports PyTorch.

>>> @workflow
... def draw(scenario, *, count: Annotated[int, Field(ge=1, description="Channels")] = 100):
...     return count
>>> draw(None), draw(None, count=3)
(100, 3)
>>> draw(None, count=0)
Traceback (most recent call last):
...
feduplink.errors.InputError: count: Input should be greater than or equal to 1 (got 0).
"""

from __future__ import annotations

import builtins
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ParamSpec,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from feduplink.errors import InputError, did_you_mean
from feduplink.registry import COMPARED, POLICIES
from feduplink.scenario import Scenario
from feduplink.settings import CHANNELS_PER_SPLIT, MAX_VERDICT_CHANNELS
from feduplink.validation import ValidatedModel, usable_device

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor

    from feduplink.channels import Channels
    from feduplink.policies import Policy

    #: A policy, its class, a function f(csi, scenario), a name, or the directory of a run.
    PolicyLike: TypeAlias = Policy | type[Policy] | Callable[..., Any] | str | os.PathLike[str]
    #: Split channels, an array to report on, or a recorded file.
    ChannelsLike: TypeAlias = Channels | Tensor | ArrayLike | str | os.PathLike[str]
else:
    PolicyLike = ChannelsLike = Any

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class CommandLine:
    """The form of an option on the command line.

    Attributes:
        metavar: the word for its value in ``--help``; by default from its type.
        positional: it has no dashes; a list takes all words that are not options.
        nargs: argparse's number of words per use of the option.
        repeated: it may be given several times, and collects the values.
        type: the type of the text that is given, where Python takes objects too; pydantic's.
        default: the value in words, where that is not the default of the signature.
    """

    metavar: str | tuple[str, ...] | None = None
    positional: bool = False
    nargs: str | None = None
    repeated: bool = False
    type: Any = None
    default: str | None = None


@dataclass(frozen=True)
class FieldsOf:
    """Marks ``**keywords`` that are fields of these models, by the title of the group."""

    models: Mapping[str, type[BaseModel]]


Seed = Annotated[int, Field(ge=0, le=2**63 - 1, description="Seed of all random numbers")]
Device = Annotated[
    str,
    Field(description="Device to compute on: cpu, cuda or cuda:N"),
]
ChannelsPerSplit = Annotated[
    int,
    Field(ge=1, le=10**7, description="Channels for each of training, validation and test"),
    CommandLine(metavar="N"),
]
#: As ``ChannelsPerSplit``, where verdicts may rest on further channels.
TestChannelsPerSplit = Annotated[
    int | None,
    Field(
        ge=1,
        le=10**7,
        description="Channels for each of training, validation and test. A given number is also "
        "that of the verdicts",
    ),
    CommandLine(
        metavar="N",
        default=f"{CHANNELS_PER_SPLIT}; more are drawn for a verdict until it is decided, at most "
        f"{MAX_VERDICT_CHANNELS}",
    ),
]
ChannelsOption = Annotated[
    ChannelsLike | None,
    Field(
        description="Recorded channels instead of drawn ones, for the workers of the file: HDF5, "
        "NPZ, NPY or MAT, with the name of an array where the file has several. They are split in "
        "turn into training, validation and test"
    ),
    CommandLine(metavar="FILE[:KEY]", type=str | None),
]
#: Policies on the command line.
POLICY_NAMES = CommandLine(
    metavar="NAME[,NAME...]",
    type=tuple[str, ...] | None,
    default=f"{', '.join(COMPARED)} and those of yours that are compared by default",
)
PoliciesOption = Annotated[
    Sequence[PolicyLike] | Mapping[str, PolicyLike] | PolicyLike | None,
    Field(
        description="Policies to compare: names, package.module:Object of your own, or directories "
        "of training runs"
    ),
    POLICIES,
    POLICY_NAMES,
]
Resume = Annotated[bool, Field(description="Continue the run in --out from its checkpoint")]
MaxBoxes = Annotated[
    int | None,
    Field(
        ge=1,
        description="Number of boxes after which the branch and bound of the proof stops",
    ),
    CommandLine(metavar="N", default="2000000, or no limit with a time limit"),
]
BudgetS = Annotated[
    float | None,
    Field(
        ge=0,
        description="Time limit of the proof, in seconds; its bound then depends on the machine",
    ),
    CommandLine(metavar="SECONDS"),
]
DataDirectory = Annotated[
    Path | None,
    Field(description="Directory of the data sets (default: that of FEDUPLINK_DATA)"),
    CommandLine(metavar="DIR"),
]
Processes = Annotated[
    int | None,
    Field(ge=1, le=1024, description="Processes to compute in at the same time"),
    CommandLine(metavar="N", default="one per processor"),
]


class RecordingOptions(ValidatedModel):
    """How an array of recorded channels is read."""

    noise_power_w: float | None = Field(
        None,
        gt=0,
        le=1e3,
        description="Noise power, W, by which recorded gains are divided (default: they are "
        "relative to the noise already)",
    )
    transpose: bool = Field(
        False,
        description="Exchange the two worker axes of recorded channels, for H[transmitter, "
        "receiver]",
    )
    channel_axes: str | None = Field(
        None,
        description="Order of the axes of recorded channels, as ijn: n channel, i receive filter, "
        "j transmitter, r antenna (default: found from the shape)",
    )


#: Keywords of a workflow on the reading of its channels.
Reading = Annotated[Any, FieldsOf({"recorded channels": RecordingOptions})]


def workflow(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Validate the options of a call: a wrong one raises ``InputError`` as on the command line.

    Values of the types that only Python takes, as policies and arrays, are passed unchecked.
    """

    @functools.wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        fields = options_of(function).model_fields
        arguments = _arguments(function, args, kwargs)
        further = arguments.pop(_catch_all(function), {})
        if arguments.get("scenario") is not None:
            Scenario.check(arguments["scenario"], "scenario")
        # Where the command line has a type of its own, Python takes objects too.
        plain = {name for name, field in fields.items() if command_line(field).type is None}
        checked = options_of(function)(
            **{name: value for name, value in arguments.items() if name in plain}, **further
        )
        values = {name: getattr(checked, name) for name in checked.model_fields_set}
        if "device" in values:
            usable_device(values["device"])  # before anything takes long
        return function(**{**arguments, **values})  # type: ignore[call-arg]

    return call


def _arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name; one that does not fit raises :class:`InputError`."""
    signature = inspect.signature(function)
    name, accepted = function.__name__, signature.parameters
    if not _catch_all(function):
        for given in kwargs:
            if given not in accepted:
                guess = did_you_mean(given, accepted)
                raise InputError(
                    f"{given}: {name} has no such argument{guess} accepted: {', '.join(accepted)}."
                )
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        first = [p.name for p in accepted.values() if p.kind in kinds]
        raise InputError(
            f"{name}: {error}; accepted: {name}({', '.join(first)}), and options by name."
        ) from None


@functools.cache
def field_groups(function: Callable[..., Any]) -> dict[str, dict[str, FieldInfo]]:
    """The options that are fields of models (:class:`FieldsOf`), by the title of each group."""
    function = inspect.unwrap(function)
    annotation = _annotations(function).get(_catch_all(function))
    marks = [item for item in get_args(annotation) if isinstance(item, FieldsOf)]
    return {
        title: dict(model.model_fields) for mark in marks for title, model in mark.models.items()
    }


@functools.cache
def options_of(function: Callable[..., Any]) -> type[ValidatedModel]:
    """The model of a workflow's options, derived from its signature.

    Fields have the type that a text is given with; see :class:`CommandLine`. All are optional: the
    call itself needs what :func:`is_required`.
    """
    function = inspect.unwrap(function)
    annotations = _annotations(function)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "out":  # the command line has it for every command
            continue
        annotation = annotations.get(parameter.name)
        if get_origin(annotation) is not Annotated:
            continue
        annotated, *metadata = get_args(annotation)
        if parameter.kind is parameter.VAR_KEYWORD:
            for group in field_groups(function).values():
                fields |= {name: (field.annotation, field) for name, field in group.items()}
            continue
        form = _form(metadata)
        default = None if parameter.default is parameter.empty else parameter.default
        kind = annotated if form.type is None else form.type
        fields[parameter.name] = (Annotated[kind, *metadata], default)
    name = f"{function.__name__.title().replace('_', '')}Options"
    return create_model(name, __base__=ValidatedModel, __doc__=function.__doc__, **fields)


def command_line(field: FieldInfo) -> CommandLine:
    """The form of an option on the command line."""
    return _form(field.metadata)


def _form(metadata: Iterable[Any]) -> CommandLine:
    """The last form, which may stand around an option that is shared."""
    *_, form = CommandLine(), *(item for item in metadata if isinstance(item, CommandLine))
    return form


def is_required(function: Callable[..., Any], name: str) -> bool:
    """Whether the option has no default in the signature."""
    parameter = inspect.signature(function).parameters.get(name)
    return parameter is not None and parameter.default is parameter.empty


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a workflow has a parameter of this name."""
    return name in inspect.signature(function).parameters


def _catch_all(function: Callable[..., Any]) -> str:
    """The name of the parameter ``**keywords``; empty without one."""
    parameters = inspect.signature(function).parameters.values()
    return next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")


class _Types(dict[str, Any]):
    """Names in annotations; what is imported for type checkers alone is no option's type."""

    def __missing__(self, name: str) -> Any:
        return Any


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    known = _Types({**vars(builtins), **vars(sys.modules[function.__module__])})
    return get_type_hints(function, localns=known, include_extras=True)
