"""CSI from the body of a request, and powers for the body of an answer.

JSON: ``{"csi": H}`` with H (L, L) or (N, L, L), answered by ``{"power_w": p}`` with p (L,) or
(N, L). Binary: N·L·L float32, little endian, row by row, with L in the query, answered by N·L
float32 of the same kind; nothing in it needs a parser, and software in C sends its array as it is.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json, to_json

from feduplink.errors import InputError
from feduplink.serving.limits import Limits

JSON, BINARY = "application/json", "application/octet-stream"

Array = NDArray[np.float32]

_FLOAT = np.dtype("<f4")
#: The largest gain that is accepted, 1/W.
LARGEST_GAIN = float(np.finfo(_FLOAT).max)
_ACCEPTED_JSON = '{"csi": H} with H (L, L) or (N, L, L), finite gains above 0'


def csi_from_json(body: bytes, workers: int | None, limits: Limits) -> Array:
    """H (L, L) or (N, L, L) of a JSON body, checked, also against L ``workers`` if given."""
    csi = checked_csi(json_object(body, {"csi"}, set(), _ACCEPTED_JSON)["csi"], limits)
    if workers not in (None, csi.shape[-1]):
        raise InputError(
            f"workers: {workers}, but csi has {csi.shape[-1]}; accepted with JSON: none, or the "
            "same number."
        )
    return csi


def json_object(
    body: bytes, required: set[str], optional: set[str], accepted: str
) -> dict[str, Any]:
    """The fields of a JSON body, refused if one is missing or not known."""
    try:
        content = from_json(body)
    except ValueError:  # also for lists that are nested deeper than the parser goes
        raise InputError(f"body: no JSON; accepted: {accepted}.") from None
    if not isinstance(content, dict) or not required <= content.keys() <= required | optional:
        fields = "the one field " if len(required) == 1 else "the fields "
        fields += " and ".join(sorted(required, reverse=True))
        raise InputError(f"body: no object with {fields}; accepted: {accepted}.")
    return content


def checked_csi(nested: Any, limits: Limits) -> Array:
    """H (L, L) or (N, L, L) of nested lists, within the limits."""
    return _checked(_numbers(nested), limits)


def csi_from_bytes(body: bytes, workers: int | None, limits: Limits) -> Array:
    """H (N, L, L) of a binary body with L ``workers``, checked."""
    if workers is None:
        raise InputError("workers: missing; accepted: the number of workers L, as in ?workers=8.")
    _check_workers(workers, limits)
    channel = workers**2 * _FLOAT.itemsize
    if not body or len(body) % channel:
        raise InputError(
            f"body: {len(body)} bytes; accepted with {workers} workers: one or more times "
            f"{channel} bytes, L·L float32 per channel."
        )
    return _checked(np.frombuffer(body, _FLOAT).reshape(-1, workers, workers), limits)


def powers_to_json(powers: Array) -> bytes:
    """The answer to JSON; powers (..., L), W."""
    return to_json({"power_w": powers.tolist()})


def powers_to_bytes(powers: Array) -> bytes:
    """The answer to a binary body; powers (..., L), W."""
    return powers.astype(_FLOAT, copy=False).tobytes()


def _numbers(nested: Any) -> NDArray[np.float64]:
    """The array (L, L) or (N, L, L) of nested lists.

    Types are looked at before NumPy does: it would take "1" and true for numbers, and one long
    string among numbers for as many strings of that length.
    """
    wrong = InputError(f"csi: no matrix of numbers; accepted: {_ACCEPTED_JSON}.")
    entries: Any = nested
    for depth in range(3):
        if not isinstance(entries, list) or not entries:
            raise wrong
        kinds = set(map(type, entries))
        if depth > 0 and kinds <= {int, float}:
            break
        if kinds != {list}:
            raise wrong
        entries = list(chain.from_iterable(entries))
    else:
        raise wrong
    try:
        return np.array(nested, dtype=np.float64)
    except (ValueError, OverflowError):  # rows of different lengths; integers beyond float64
        raise wrong from None


def _checked(csi: NDArray[np.floating[Any]], limits: Limits) -> Array:
    *_, rows, columns = csi.shape
    if rows != columns:
        raise InputError(
            f"csi: shape {csi.shape} is not square; accepted: (L, L) or (N, L, L) with L >= 1."
        )
    _check_workers(rows, limits)
    channels = len(csi) if csi.ndim == 3 else 1
    if channels > limits.max_channels:
        raise InputError(f"csi: {channels} channels; accepted: at most {limits.max_channels}.")
    if not (csi <= LARGEST_GAIN).all():  # before rounding, which would let a little more pass
        raise InputError("csi: holds NaN or a gain beyond float32; accepted: finite gains above 0.")
    with np.errstate(under="ignore", over="ignore"):
        gains = csi.astype(np.float32)  # a copy: a body's own bytes need not be aligned
    if not (gains > 0).all():
        raise InputError("csi: holds a negative or zero gain; accepted: finite gains above 0.")
    return gains


def _check_workers(workers: int, limits: Limits) -> None:
    if not 1 <= workers <= limits.max_workers:
        raise InputError(f"workers: {workers}; accepted: 1 to {limits.max_workers}.")
