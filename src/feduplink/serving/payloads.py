"""Request and response bodies, as pydantic models for validation and OpenAPI schemas.

CSI is H (L, L) or (N, L, L), in 1/W. A binary request consists of N·L·L float32 values, little
endian, in row-major order, and its response of N·L float32 values.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, ValidationError
from pydantic_core import to_json

from feduplink.errors import InputError
from feduplink.link import Schedule
from feduplink.serving.limits import Limits

JSON, BINARY = "application/json", "application/octet-stream"

Array = NDArray[np.float32]

_FLOAT32 = np.dtype("<f4")
#: Largest gain, 1/W.
MAX_GAIN = float(np.finfo(_FLOAT32).max)
#: Largest model, in bits, and largest price of energy, in s/J.
MAX_BITS, MAX_KAPPA = 1e15, 1e6
#: Maximum N·L³ of a schedule request: a few seconds of computation, which cannot be interrupted.
MAX_SCHEDULE_SIZE = 2**20

# ``fail_fast`` stops the validation of a body at the first error.
_Row = Annotated[
    list[Annotated[float, Field(gt=0, le=MAX_GAIN)]], Field(min_length=1, fail_fast=True)
]
#: H of one channel, row by row.
Matrix = Annotated[list[_Row], Field(min_length=1, fail_fast=True)]
_Matrices = Annotated[list[Matrix], Field(min_length=1, fail_fast=True)]
_Csi = Annotated[
    Matrix | _Matrices,
    Field(
        union_mode="left_to_right",
        description="H, (L, L) or (N, L, L), in 1/W: gains divided by the noise power. GET "
        "/v1/policy returns the maximum N and L.",
    ),
]
_EXAMPLE_CSI: Any = [[[9e5, 2e3], [4e3, 3e6]], [[2e6, 7e4], [1e4, 8e5]]]


class StrictRequest(BaseModel):
    """Base class of request bodies; rejects unknown fields, conversions, NaN and infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class AllocationRequest(StrictRequest):
    """CSI of one or several channels."""

    model_config = ConfigDict(json_schema_extra={"example": {"csi": _EXAMPLE_CSI}})

    csi: _Csi


class ScheduleRequest(StrictRequest):
    """CSI of one or several rounds, and the cost that their schedules minimise."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"csi": _EXAMPLE_CSI[0], "bits": 1_272_320, "kappa": 10}}
    )

    csi: _Csi
    bits: float = Field(gt=0, le=MAX_BITS, description="Size of the model, in bits")
    kappa: float = Field(
        default=0.0, ge=0, le=MAX_KAPPA, description="Price of energy, in s/J; 0: minimum time"
    )


class AllocationResponse(BaseModel):
    """Transmit powers."""

    model_config = ConfigDict(extra="forbid")

    power_w: list[NonNegativeFloat] | list[list[NonNegativeFloat]] = Field(
        description="Transmit powers in W, (L,) for one channel, (N, L) for several"
    )


class Phase(BaseModel):
    """Part of a round with constant powers."""

    model_config = ConfigDict(extra="forbid")

    duration_s: PositiveFloat
    power_w: list[NonNegativeFloat] = Field(description="Transmit powers in W, (L,); 0: silent")

    @classmethod
    def from_schedule(cls, schedule: Schedule, row: int) -> list[Self]:
        """Phases of a round of a schedule, without those of zero duration."""
        phases = zip(schedule.durations_s[row].tolist(), schedule.power[row].tolist(), strict=True)
        return [cls(duration_s=time_s, power_w=power_w) for time_s, power_w in phases if time_s > 0]


class ScheduleResponse(BaseModel):
    """Phases of one or several rounds, in the order of transmission."""

    model_config = ConfigDict(extra="forbid")

    phases: list[Phase] | list[list[Phase]]


class Health(BaseModel):
    """Liveness."""

    status: Literal["ok"] = "ok"


class PolicyDescription(BaseModel):
    """Policy of the service, and limits of a request."""

    model_config = ConfigDict(extra="ignore")

    policy: str = Field(description="Name of the policy")
    version: str = Field(description="Version of feduplink that wrote the file")
    scenario: dict[str, Any] = Field(description="Scenario of the policy")
    workers: int | None = Field(description="Required number of workers; null: any")
    pmax_w: float | list[float] = Field(description="Maximum power in W, of all or per worker")
    silence_w: float = Field(description="Powers below are set to 0, W")
    units: dict[str, str]
    multipliers: dict[str, Any] | None = Field(
        description="Multipliers of the constraints; null: the policy has none"
    )
    limits: Limits


class Refusal(BaseModel):
    """Error response."""

    detail: str = Field(description="Reason, in one sentence")


_RequestT = TypeVar("_RequestT", bound=StrictRequest)


def parse_request(model: type[_RequestT], body: bytes) -> _RequestT:
    """Validate a JSON body.

    Args:
        model: class of the request.
        body: JSON text.

    Returns:
        The request.

    Raises:
        InputError: for the first problem of the body.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise InputError(_first_problem(error)) from None


def _first_problem(error: ValidationError) -> str:
    """Describe the first problem of a body, in a sentence."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    # An invalid value in a list of matrices also causes a type error as a single matrix.
    specific = [p for p in problems if p["type"] not in ("float_type", "list_type")]
    problem = (specific or problems)[0]
    if not specific and problem["loc"][0] == "csi":
        return "csi must be an array (L, L) or (N, L, L) of numbers."
    where = "".join(
        f"[{part}]" if isinstance(part, int) else part
        for part in problem["loc"]
        if isinstance(part, int) or part.isidentifier()  # omits names of union members
    )
    return f"{where or 'body'}: {problem['msg']}."


def csi_from_json(body: bytes, workers: int | None, limits: Limits) -> Array:
    """CSI (L, L) or (N, L, L) of a JSON allocation request.

    Args:
        body: JSON object, see :class:`AllocationRequest`.
        workers: L in the query, which must agree; None if not given.
        limits: limits of the request.

    Returns:
        H, float32, in 1/W.

    Raises:
        InputError: if the body is not accepted.
    """
    csi = csi_from_lists(parse_request(AllocationRequest, body).csi, limits)
    if workers not in (None, csi.shape[-1]):
        raise InputError(
            f"workers must be the number of workers in csi ({csi.shape[-1]}) or be omitted with "
            f"JSON; got {workers}."
        )
    return csi


def csi_from_bytes(body: bytes, workers: int | None, limits: Limits) -> Array:
    """CSI (N, L, L) of a binary body.

    Args:
        body: N·L·L float32 values, little endian.
        workers: L in the query, at least 1; required.
        limits: limits of the request.

    Returns:
        H, float32, in 1/W.

    Raises:
        InputError: if the body or the query is not accepted.
    """
    if workers is None:
        raise InputError("workers is required with a binary body, as in ?workers=8.")
    channel_bytes = workers**2 * _FLOAT32.itemsize
    if not body or len(body) % channel_bytes:
        raise InputError(
            f"The body must have a positive multiple of {channel_bytes} bytes, L·L float32 per "
            f"channel of {workers} workers; got {len(body)}."
        )
    return _check_csi(np.frombuffer(body, _FLOAT32).reshape(-1, workers, workers), limits)


def csi_from_lists(nested: list[Any], limits: Limits) -> Array:
    """Convert nested lists to CSI (L, L) or (N, L, L); raises :class:`InputError` if invalid."""
    try:
        csi = np.array(nested, dtype=np.float64)
    except ValueError:
        raise InputError("csi must have rows of equal length.") from None
    return _check_csi(csi, limits)


def powers_to_json(powers: Array) -> bytes:
    """JSON :class:`AllocationResponse` with powers (..., L), W."""
    return to_json({"power_w": powers.tolist()})


def powers_to_bytes(powers: Array) -> bytes:
    """Binary response with powers (..., L), W."""
    return powers.astype(_FLOAT32, copy=False).tobytes()


def _check_csi(csi: NDArray[np.floating[Any]], limits: Limits) -> Array:
    """Validate CSI: square, within the limits, finite and positive; returns aligned float32."""
    *_, rows, columns = csi.shape
    if rows != columns:
        raise InputError(f"csi must be square, (L, L) or (N, L, L); got {csi.shape}.")
    if rows > limits.max_workers:
        raise InputError(f"workers must be 1 to {limits.max_workers}; got {rows}.")
    channels = len(csi) if csi.ndim == 3 else 1
    if channels > limits.max_channels:
        raise InputError(f"csi must have at most {limits.max_channels} channels; got {channels}.")
    if not (csi <= MAX_GAIN).all():  # before rounding, which could reduce larger gains to MAX_GAIN
        raise InputError("csi must have finite float32 gains above 0; got NaN or a larger gain.")
    with np.errstate(under="ignore", over="ignore"):
        gains = csi.astype(np.float32)  # copied, because the bytes of a body may be unaligned
    if not (gains > 0).all():
        raise InputError("csi must have finite gains above 0; got a negative gain or 0.")
    return gains
