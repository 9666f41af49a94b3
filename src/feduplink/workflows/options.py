"""Options of workflows, declared in the signatures of their functions.

A parameter annotated with ``Annotated[type, Field(description=..., ge=...)]`` is an option. The
command line, ``--config`` files, sweeps and calls from Python share its default, range and
description. Importing this module does not import PyTorch.

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

    #: A policy, a policy class, a function f(csi, scenario), a name, or the directory of a run.
    PolicyLike: TypeAlias = Policy | type[Policy] | Callable[..., Any] | str | os.PathLike[str]
    #: A set of channels, an array (N, L, L), or a file of recorded channels.
    ChannelsLike: TypeAlias = Channels | Tensor | ArrayLike | str | os.PathLike[str]
else:
    PolicyLike = ChannelsLike = Any

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class CommandLine:
    """Form of an option on the command line.

    Attributes:
        metavar: placeholder of the value in ``--help``; None: derived from the type.
        positional: whether it is a positional argument; a list takes all positional arguments.
        nargs: number of words per use of the option, as for argparse.
        repeated: whether the option may be repeated to collect several values.
        type: type for the validation of text, if Python also accepts objects; None: the annotated
            type.
        default: description of the default, if it differs from that of the signature.
    """

    metavar: str | tuple[str, ...] | None = None
    positional: bool = False
    nargs: str | None = None
    repeated: bool = False
    type: Any = None
    default: str | None = None


@dataclass(frozen=True)
class FieldsOf:
    """Annotation of ``**keywords`` that are fields of models.

    Attributes:
        models: models by the title of their group of options.
    """

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
#: As ``ChannelsPerSplit``, for workflows that draw further channels for verdicts.
TestChannelsPerSplit = Annotated[
    int | None,
    Field(
        ge=1,
        le=10**7,
        description="Channels for each of training, validation and test. If given, verdicts use "
        "this number too",
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
        "NPZ, NPY or MAT, with the name of the array if the file has several. They are assigned in "
        "turn to training, validation and test"
    ),
    CommandLine(metavar="FILE[:KEY]", type=str | None),
]
#: Policies on the command line.
POLICY_NAMES = CommandLine(
    metavar="NAME[,NAME...]",
    type=tuple[str, ...] | None,
    default=f"{', '.join(COMPARED)} and user-defined policies with by_default",
)
PoliciesOption = Annotated[
    Sequence[PolicyLike] | Mapping[str, PolicyLike] | PolicyLike | None,
    Field(
        description="Policies to compare: names, package.module:Object, or directories of training "
        "runs"
    ),
    POLICIES,
    POLICY_NAMES,
]
Resume = Annotated[bool, Field(description="Continue the run in --out from its checkpoint")]
MaxBoxes = Annotated[
    int | None,
    Field(
        ge=1,
        description="Maximum number of boxes of the branch and bound of the upper bound",
    ),
    CommandLine(metavar="N", default="2000000, or no limit with a time limit"),
]
BudgetS = Annotated[
    float | None,
    Field(
        ge=0,
        description="Time limit of the branch and bound, in seconds; the bound then depends on the "
        "machine",
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
    """Conventions of an array of recorded channels."""

    noise_power_w: float | None = Field(
        None,
        gt=0,
        le=1e3,
        description="Noise power, W, by which recorded gains are divided (default: gains are "
        "already divided by the noise power)",
    )
    transpose: bool = Field(
        False,
        description="Exchange the two worker axes of recorded channels, if they are H[transmitter, "
        "receiver]",
    )
    channel_axes: str | None = Field(
        None,
        description="Order of the axes of recorded channels, such as ijn: n channel, i receive "
        "filter, j transmitter, r antenna (default: inferred from the shape)",
    )


#: Keywords of workflows for the conventions of recorded channels.
Reading = Annotated[Any, FieldsOf({"recorded channels": RecordingOptions})]


def workflow(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Decorator that validates the options of every call of a workflow.

    Invalid options raise :class:`InputError`, with the same messages as on the command line.
    Options with a ``CommandLine.type``, which also accept objects such as policies and arrays, are
    passed unchecked.

    Args:
        function: the workflow.

    Returns:
        The workflow with validation.
    """

    @functools.wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        fields = options_of(function).model_fields
        arguments = _arguments(function, args, kwargs)
        further = arguments.pop(_catch_all(function), {})
        if arguments.get("scenario") is not None:
            Scenario.check(arguments["scenario"], "scenario")
        # An option with a separate type for text accepts objects too; these are not validated here.
        plain = {name for name, field in fields.items() if command_line(field).type is None}
        checked = options_of(function)(
            **{name: value for name, value in arguments.items() if name in plain}, **further
        )
        values = {name: getattr(checked, name) for name in checked.model_fields_set}
        if "device" in values:
            usable_device(values["device"])  # raises before the work begins
        return function(**{**arguments, **values})  # type: ignore[call-arg]

    return call


def _arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments of a call by name; raises :class:`InputError` if they do not fit the signature."""
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
    """Fields of the models in :class:`FieldsOf` annotations, by name, by title of the group."""
    function = inspect.unwrap(function)
    annotation = _annotations(function).get(_catch_all(function))
    marks = [item for item in get_args(annotation) if isinstance(item, FieldsOf)]
    return {
        title: dict(model.model_fields) for mark in marks for title, model in mark.models.items()
    }


@functools.cache
def options_of(function: Callable[..., Any]) -> type[ValidatedModel]:
    """Derive a model of the options of a workflow from its signature.

    Args:
        function: the workflow.

    Returns:
        A model with one field per option, of the type for the validation of text
        (:class:`CommandLine`). All fields are optional; :func:`is_required` identifies options
        without a default.
    """
    function = inspect.unwrap(function)
    annotations = _annotations(function)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "out":  # an option of every command
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
    """Form of an option on the command line."""
    return _form(field.metadata)


def _form(metadata: Iterable[Any]) -> CommandLine:
    """Last :class:`CommandLine` in the metadata; an outer annotation overrides a shared one."""
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
    """Name of the parameter ``**keywords``, or an empty text."""
    parameters = inspect.signature(function).parameters.values()
    return next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")


class _Types(dict[str, Any]):
    """Namespace of annotations; names imported for type checkers only resolve to ``Any``."""

    def __missing__(self, name: str) -> Any:
        return Any


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolved annotations of a function, with their metadata."""
    known = _Types({**vars(builtins), **vars(sys.modules[function.__module__])})
    return get_type_hints(function, localns=known, include_extras=True)
