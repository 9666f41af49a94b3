"""Recorded channels in HDF5, NPZ, NPY and MAT files, and in arrays.

The package writes HDF5 in the layout of public data sets: ``input/channel_to_noise_matched``
(N, L, L) float32 contains H; the optional ``input/channel`` (N, L, K, n_R) contains the complex
antenna coefficients for K base stations with n_R antennas.

The axes of other arrays are denoted by letters: n channel, i receive filter of worker i, j
transmitter, r antenna.

====================  =========================================================================
real, n i j           gains H_ij, linear, divided by the noise power
complex, n i j        effective coefficients g_ij after the receive filter, H_ij = |g_ij|²
complex, n i r        antenna coefficients h_i; H_ij = |h_iᴴ h_j|² / ‖h_i‖², the matched filter
====================  =========================================================================
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from feduplink.channels.csi import check_antenna, check_csi
from feduplink.channels.models import Realisations
from feduplink.channels.receivers import mrc_csi
from feduplink.channels.summary import looks_like_decibels, looks_transposed
from feduplink.errors import InputError
from feduplink.storage.arrays import ArrayFile, StoredArray, listed, reading_arrays
from feduplink.storage.hdf5 import dataset_in, writing_hdf5
from feduplink.storage.tensorfile import checksum

CSI_DATASET = "input/channel_to_noise_matched"
ANTENNA_DATASET = "input/channel"
#: Maximum number of workers, as in a scenario.
_MAX_WORKERS = 1024
#: Axes of H and of antenna coefficients in standard order.
_GAIN_AXES, _ANTENNA_AXES = "nij", "nir"
#: All accepted orders of axes.
_AXES = tuple(
    "".join(order)
    for letters in (_GAIN_AXES, _ANTENNA_AXES, "ij", "ir")
    for order in permutations(letters)
)
#: Real numbers are assumed to be in dB if at least this share is negative and all are below this
#: absolute value.
_MIN_NEGATIVE_SHARE, _MAX_ABS_DB = 0.1, 250.0


@dataclass(frozen=True)
class Recording:
    """Channels from a file or an array.

    Attributes:
        csi: H, (N, L, L), in 1/W.
        antenna: antenna coefficients, (N, L, K, n_R) complex64, if the file contains them.
        order: description of the axes.
    """

    csi: Tensor
    antenna: Tensor | None
    order: str


def recording_identity(recorded: Tensor | None) -> str:
    """Identifier of recorded channels in the header of a checkpoint.

    Args:
        recorded: H, (N, L, L); None for drawn channels, which scenario and seed determine.

    Returns:
        A checksum, or ``drawn``.
    """
    return "drawn" if recorded is None else checksum({"recorded": recorded}, {})


def write_channels(
    path: str | os.PathLike[str], channels: Realisations | Tensor | ArrayLike, *, scenario: str = ""
) -> None:
    """Write channels to an HDF5 file, which replaces an existing file atomically.

    Args:
        path: path of the file.
        channels: H, (N, L, L), in 1/W; or realisations of :func:`feduplink.draw_channels`, with
            their antenna coefficients.
        scenario: YAML text, stored as an attribute of the file.

    Raises:
        InputError: if H is not square, finite and positive.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import feduplink as fu
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     fu.write_channels(Path(directory, "cell.h5"), torch.ones(9, 2, 2))
    ...     fu.read_channels(Path(directory, "cell.h5")).csi.shape
    torch.Size([9, 2, 2])
    """
    if not isinstance(channels, Realisations):
        channels = Realisations(torch.as_tensor(channels))
    csi = check_csi(channels.csi)
    with writing_hdf5(Path(path)) as file:
        file.create_dataset(CSI_DATASET, data=csi.to(torch.float32).numpy(), compression="gzip")
        if channels.antenna is not None:
            file.create_dataset(ANTENNA_DATASET, data=channels.antenna.numpy())
        file.attrs["scenario"] = scenario


def read_channels(
    path: str | os.PathLike[str],
    *,
    noise_power_w: float | None = None,
    transpose: bool = False,
    channel_axes: str | None = None,
) -> Realisations:
    """Read and validate recorded channels.

    A warning is issued for gains that are probably in dB or transposed.

    Args:
        path: an HDF5, NPZ, NPY or MAT file; ``FILE:KEY`` with the name of an array if the file has
            several arrays that may contain channels.
        noise_power_w: noise power σ² by which gains are divided, W; None: gains are already divided
            by the noise power.
        transpose: exchange the worker axes of arrays H[transmitter, receiver].
        channel_axes: order of the axes, such as ``ijn``: n channel, i receive filter, j
            transmitter, r antenna; None: inferred from the shape.

    Returns:
        H, (N, L, L) float32, in 1/W; and antenna coefficients if the file contains both.

    Raises:
        InputError: if the file cannot be read or does not contain channels.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import feduplink as fu
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     np.save(Path(directory, "cell.npy"), np.ones((9, 2, 2)))
    ...     fu.read_channels(Path(directory, "cell.npy")).csi.shape
    torch.Size([9, 2, 2])
    """
    recording = read_recording(
        path, noise_power_w=noise_power_w, transpose=transpose, channel_axes=channel_axes
    )
    for doubt in (looks_like_decibels(recording.csi), looks_transposed(recording.csi)):
        if doubt:
            warnings.warn(f"{path}: {doubt}", stacklevel=2)
    return Realisations(recording.csi, recording.antenna)


def read_recording(
    path: str | os.PathLike[str],
    *,
    noise_power_w: float | None = None,
    transpose: bool = False,
    channel_axes: str | None = None,
) -> Recording:
    """Read recorded channels with a description of their axes, without warnings.

    Arguments and errors are those of :func:`read_channels`.
    """
    file_path, key = split_key(path)
    with reading_arrays(file_path, "channels") as file:
        found, axes = _find(file, key, transpose=transpose, channel_axes=channel_axes)
        values, antenna = found.read(), None
        if key is None and found.name == CSI_DATASET:
            antenna = _antenna_beside(file)
    try:
        recording = _interpreted(values, axes, noise_power_w)
        if antenna is not None:
            check_antenna(antenna, recording.csi)
    except InputError as error:
        raise InputError(f"channels: {path}: {error}") from None
    return Recording(recording.csi.to(torch.float32), antenna, recording.order)


def recorded_array(
    array: ArrayLike | Tensor,
    *,
    noise_power_w: float | None = None,
    transpose: bool = False,
    channel_axes: str | None = None,
) -> Recording:
    """Convert a NumPy or PyTorch array to channels.

    Arguments and errors are those of :func:`read_channels`. If the channel index may be the first
    or the last axis, it is the first. Complex arrays (N, L, L) need ``channel_axes``.
    """
    values = array if isinstance(array, Tensor) else np.asarray(array)
    is_complex = values.is_complex() if isinstance(values, Tensor) else values.dtype.kind == "c"
    if not isinstance(values, Tensor) and values.dtype.kind not in "fiuc":
        raise InputError(
            f"channels: an array of {values.dtype} is not accepted; accepted: real or complex "
            "numbers."
        )
    shape = tuple(values.shape)
    possible = possible_axes(shape, is_complex=is_complex)
    first = [axes for axes in possible if axes in (_GAIN_AXES, _ANTENNA_AXES)]
    kind = "complex" if is_complex else "real"
    try:
        axes = _chosen_axes(shape, kind, first or possible, channel_axes)
        axes = _swapped(axes) if transpose else axes
    except InputError as error:
        raise InputError(f"channels: an array that {error}.") from None
    try:
        return _interpreted(values, axes, noise_power_w)
    except InputError as error:
        raise InputError(f"channels: {error}") from None


def recorded_workers(
    path: str | os.PathLike[str], *, transpose: bool = False, channel_axes: str | None = None
) -> int:
    """Number of workers L of recorded channels, without reading the array.

    Args:
        path: file of :func:`read_channels`.
        transpose: exchange the worker axes.
        channel_axes: order of the axes; None: inferred from the shape.

    Returns:
        L.

    Raises:
        InputError: as :func:`read_channels`.
    """
    file_path, key = split_key(path)
    with reading_arrays(file_path, "channels") as file:
        found, axes = _find(file, key, transpose=transpose, channel_axes=channel_axes)
        return found.shape[axes.index("i")]


def split_key(path: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Split ``FILE:KEY`` into path and key; an existing file may have a colon in its name.

    Args:
        path: ``FILE`` or ``FILE:KEY``.

    Returns:
        The path, and the key or None.

    >>> split_key("cell.npz:H")[1], split_key("cell.npz")[1]
    ('H', None)
    """
    text = os.fspath(path)
    file, colon, key = text.rpartition(":")
    if not colon or not key or len(file) < 2 or Path(text).exists():
        return Path(text), None
    return Path(file), key


def possible_axes(shape: Sequence[int], *, is_complex: bool) -> list[str]:
    """Possible orders of axes of an array, with the channel index first or last.

    Args:
        shape: shape of the array.
        is_complex: whether the array is complex.

    Returns:
        Orders such as ``nij``; empty if the array cannot contain channels.

    >>> possible_axes((300, 8, 8), is_complex=False), possible_axes((8, 8, 300), is_complex=False)
    (['nij'], ['ijn'])
    """
    if any(size < 1 for size in shape):
        return []
    found = []
    if len(shape) == 2 and shape[0] == shape[1]:
        found.append("ij")
    if len(shape) == 3:
        first, second, third = shape
        if second == third:
            found.append("nij")
        if first == second:
            found.append("ijn")
        if is_complex:
            # If the last axis is longer than the first, it may be the channel index.
            found += ["nir"] if first >= third else ["nir", "irn"]
    workers = [shape[axes.index("i")] for axes in found]
    return [axes for axes, count in zip(found, workers, strict=True) if count <= _MAX_WORKERS]


def _find(
    file: ArrayFile, key: str | None, *, transpose: bool, channel_axes: str | None
) -> tuple[StoredArray, str]:
    """Array of channels and the order of its axes, without reading the array."""
    if key is None and (stored := _own_layout(file)) is not None:
        axes = _axes_of_own_layout(stored, channel_axes)
    else:
        stored = _only_candidate(file, channel_axes) if key is None else file.array(key)
        axes = _axes_of(stored, channel_axes)
    return stored, _swapped(axes) if transpose else axes


def _own_layout(file: ArrayFile) -> StoredArray | None:
    """Array H in the layout of public data sets, or None."""
    hdf5 = getattr(file, "hdf5", None)
    if isinstance(hdf5, h5py.File) and CSI_DATASET in hdf5:
        return file.array(CSI_DATASET)
    return None


def _axes_of_own_layout(stored: StoredArray, channel_axes: str | None) -> str:
    """Order of the axes of H in the layout of public data sets: nij unless another is given."""
    if stored.kind != "real":
        raise InputError(
            f"contains {stored.dtype} in {CSI_DATASET}; accepted: real numbers, and complex "
            f"antenna coefficients in {ANTENNA_DATASET}"
        )
    possible = possible_axes(stored.shape, is_complex=False)
    if channel_axes is None and _GAIN_AXES in possible:
        return _GAIN_AXES
    return _axes_of(stored, channel_axes)


def _antenna_beside(file: ArrayFile) -> Tensor | None:
    """Antenna coefficients in the layout of public data sets, (N, L, K, n_R), or None."""
    hdf5 = getattr(file, "hdf5", None)
    if hdf5 is None or ANTENNA_DATASET not in hdf5:
        return None
    coefficients = dataset_in(hdf5, ANTENNA_DATASET)
    return torch.from_numpy(np.asarray(coefficients, dtype=np.complex64))


def _only_candidate(file: ArrayFile, channel_axes: str | None) -> StoredArray:
    """The only array of the file that may contain channels."""
    arrays = file.arrays()
    found = [array for array in arrays if array.kind and _may_have(array, channel_axes)]
    if len(found) == 1:
        return found[0]
    if not found:
        if len(arrays) == 1:
            return arrays[0]  # _axes_of raises with the reason
        raise InputError(
            f"has no array that may contain channels; it has {listed(arrays)}; accepted: real or "
            "complex numbers of shape (N, L, L), (L, L, N) or (L, L), or complex (N, L, n_R)"
        )
    raise InputError(
        f"has {len(found)} arrays that may contain channels: {listed(found)}; accepted: the name "
        f"of one after a colon, as in FILE:{found[0].name}"
    )


def _may_have(array: StoredArray, channel_axes: str | None) -> bool:
    """Whether an array may have these axes, or any accepted axes for None."""
    if channel_axes is not None:
        return len(channel_axes) == len(array.shape)
    return bool(possible_axes(array.shape, is_complex=array.kind == "complex"))


def _axes_of(stored: StoredArray, channel_axes: str | None) -> str:
    """Order of the axes of an array in a file."""
    if not stored.kind:
        raise InputError(
            f"contains {stored.dtype} in {stored.name or 'its array'}; accepted: real or complex "
            "numbers"
        )
    possible = possible_axes(stored.shape, is_complex=stored.kind == "complex")
    return _chosen_axes(stored.shape, stored.kind, possible, channel_axes, stored.name)


def _chosen_axes(
    shape: tuple[int, ...], kind: str, possible: list[str], given: str | None, name: str = ""
) -> str:
    """The given order of axes if the array can have it, or the only possible one for None."""
    has = f"has {name} of shape {shape}" if name else f"has shape {shape}"
    if given is not None:
        if given not in _AXES:
            raise InputError(
                f"cannot be read with channel_axes {given!r}; accepted: an order of the letters n "
                "(channel), i (receive filter), j (transmitter) or r (antenna), as nij, ijn or nir"
            )
        sizes = dict(zip(given, shape, strict=False))
        if (
            len(given) != len(shape)
            or not all(shape)
            or sizes["i"] != sizes.get("j", sizes["i"])
            or sizes["i"] > _MAX_WORKERS
            or ("r" in given and kind != "complex")
        ):
            raise InputError(
                f"{has} and {kind} numbers, which channel_axes {given} does not match; accepted: a "
                f"letter per axis, i and j of the same size up to {_MAX_WORKERS}, and r for "
                "complex numbers only"
            )
        return given
    if not possible:
        antennas = ", or (N, L, n_R) for antenna coefficients" if kind == "complex" else ""
        raise InputError(
            f"{has}; accepted: (N, L, L), (L, L, N) or (L, L){antennas}, with N >= 1 and L from 1 "
            f"to {_MAX_WORKERS}"
        )
    if len(possible) > 1:
        raise InputError(
            f"{has} and {kind} numbers, which can be read in {len(possible)} ways; accepted: "
            f"--channel-axes {' or '.join(possible)} (in Python channel_axes), where n is the "
            "channel, i the receive filter, j the transmitter and r the antenna"
        )
    return possible[0]


def _swapped(axes: str) -> str:
    """Order of axes with the worker axes exchanged."""
    if "r" in axes:
        raise InputError(
            "has antenna coefficients, which have one worker axis; accepted: transpose for gains "
            "only"
        )
    return axes.translate(str.maketrans("ij", "ji"))


def _interpreted(
    values: NDArray[Any] | Tensor, axes: str, noise_power_w: float | None
) -> Recording:
    """Compute H from an array with known axes.

    The array contains gains σ² H, effective coefficients g with |g|² = σ² H, or antenna
    coefficients h, for which H_ij = |h_iᴴ h_j|² / (σ² ‖h_i‖²) with a matched filter.
    """
    if noise_power_w is not None and not (
        isinstance(noise_power_w, int | float) and 0 < noise_power_w < math.inf
    ):
        raise InputError(
            f"noise_power_w: {noise_power_w!r} was given; accepted: a finite number above 0, in W."
        )
    given = _as_tensor(values)
    order = f"{'h' if 'r' in axes else 'g' if given.is_complex() else 'H'}[{', '.join(axes)}]"
    usual = _ANTENNA_AXES if "r" in axes else _GAIN_AXES
    if "n" not in axes:
        given, axes = given[None], f"n{axes}"
    ordered = given.permute([axes.index(letter) for letter in usual])
    noise = 1.0 if noise_power_w is None else noise_power_w
    words = {"n": "channel", "i": "receive filter", "j": "transmitter", "r": "antenna"}
    if given.is_complex():
        ordered = ordered.to(torch.complex128)
        if "r" in axes:
            words["i"] = "worker"
            csi = mrc_csi(ordered / noise**0.5)
            how = ", matched filter"
        else:
            csi = ordered.abs().square() / noise
            how = ", H = |g|²"
        csi = csi.to(given.real.dtype)
    else:
        _refuse_decibels(ordered)
        csi, how = ordered if noise_power_w is None else ordered / noise, ""
    check_csi(csi)
    if noise_power_w is not None:
        how += f", divided by {noise_power_w:g} W"
    named = ", ".join(f"{letter} {words[letter]}" for letter in usual if letter in order[1:])
    return Recording(csi.contiguous(), None, f"{order} ({named}){how}")


def _as_tensor(values: NDArray[Any] | Tensor) -> Tensor:
    """The array as a tensor; integers become float64."""
    if isinstance(values, Tensor):
        is_integer = not (values.is_floating_point() or values.is_complex())
        return values.double() if is_integer and values.dtype != torch.bool else values
    native = {"f": np.float64, "i": np.float64, "u": np.float64, "c": np.complex128}
    is_single = values.dtype in (np.float32, np.complex64)
    dtype = values.dtype.newbyteorder("=") if is_single else native[values.dtype.kind]
    return torch.from_numpy(np.ascontiguousarray(values, dtype=dtype))


def _refuse_decibels(gains: Tensor) -> None:
    """Raise :class:`InputError` if the share of negative gains indicates values in dB."""
    negative = gains < 0
    share = float(negative.double().mean()) if gains.numel() else 0.0
    if share >= _MIN_NEGATIVE_SHARE and bool((gains.abs() < _MAX_ABS_DB).all()):
        low, high = gains.aminmax()
        raise InputError(
            f"csi: {share:.0%} of the gains are negative, from {low:g} to {high:g}, as if they "
            "were in dB; accepted: linear gains above 0, 10 ** (dB / 10)."
        )
