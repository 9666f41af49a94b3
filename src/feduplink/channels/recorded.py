"""Channels that a user brings: files of HDF5, NPZ, NPY and MAT, and arrays.

The package writes HDF5 in the layout of the field's public data: ``input/channel_to_noise_matched``
(N, L, L) float32 holds H; ``input/channel``, if present, the complex antenna coefficients behind
it, (N, L, K, n_R) for K base stations with n_R antennas.

Other arrays are read by the order of their axes, a letter each: n the channel, i the receive
filter of worker i, j the transmitter, r the antenna.

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
#: Most workers, as of a scenario.
_MAX_WORKERS = 1024
#: Letters of the axes in the order of H, and of antenna coefficients.
_GAIN_AXES, _ANTENNA_AXES = "nij", "nir"
#: All accepted orders of axes, the usual ones first.
_AXES = tuple(
    "".join(order)
    for letters in (_GAIN_AXES, _ANTENNA_AXES, "ij", "ir")
    for order in permutations(letters)
)
#: Share of negative numbers, and their size, from which real numbers are taken for dB.
_NEGATIVE_SHARE, _MAX_ABS_DB = 0.1, 250.0


@dataclass(frozen=True)
class Recording:
    """Channels from a file or an array.

    Attributes:
        csi: H, (N, L, L), linear, noise power one.
        antenna: the coefficients behind it, (N, L, K, n_R), if the file has them beside H.
        order: how the axes were read, in words.
    """

    csi: Tensor
    antenna: Tensor | None
    order: str


def recording_identity(recorded: Tensor | None) -> str:
    """What tells recorded channels from others, for the header of a checkpoint.

    Drawn ones, None, follow from scenario and seed.
    """
    return "drawn" if recorded is None else checksum({"recorded": recorded}, {})


def write_channels(
    path: str | os.PathLike[str], channels: Realisations | Tensor | ArrayLike, *, scenario: str = ""
) -> None:
    """Write channels to an HDF5 file, which appears under its name only when it is complete.

    Args:
        path: of the file.
        channels: H (N, L, L), or drawn channels, whose antenna coefficients are written too.
        scenario: YAML text that is kept as an attribute of the file.
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
    """Read and check recorded channels.

    Args:
        path: an HDF5, NPZ, NPY or MAT file; ``FILE:KEY`` names an array in it, which is needed
            unless only one may hold channels.
        noise_power_w: noise power σ², W, by which gains are divided; None: they are relative to
            the noise already.
        transpose: exchange the worker axes, for a file with H[transmitter, receiver].
        channel_axes: order of the axes, as ``ijn``; None: found from the shape.

    Returns:
        H, (N, L, L) float32, and the antenna coefficients if the file has both.

    Raises:
        InputError: with the reason in one sentence.

    Gains that are probably in dB or transposed are reported by a warning.
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
    """As :func:`read_channels`, with the order of the axes and without warnings."""
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
    """Channels in an array of NumPy or PyTorch, by the rules of :func:`read_channels`.

    Where the channel index may be the first or the last, it is the first. Complex numbers (N, L, L)
    need ``channel_axes``, as in files.
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
    """The number of workers L of recorded channels."""
    file_path, key = split_key(path)
    with reading_arrays(file_path, "channels") as file:
        found, axes = _find(file, key, transpose=transpose, channel_axes=channel_axes)
        return found.shape[axes.index("i")]


def split_key(path: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Split ``FILE:KEY``; a file whose name has a colon is taken as a whole.

    >>> split_key("cell.npz:H")[1], split_key("cell.npz")[1]
    ('H', None)
    """
    text = os.fspath(path)
    file, colon, key = text.rpartition(":")
    if not colon or not key or len(file) < 2 or Path(text).exists():
        return Path(text), None
    return Path(file), key


def possible_axes(shape: Sequence[int], *, is_complex: bool) -> list[str]:
    """The orders of axes that an array of this shape may have, the channel index first or last.

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
            # With more antennas than channels the last axis may be the channel as well.
            found += ["nir"] if first >= third else ["nir", "irn"]
    workers = [shape[axes.index("i")] for axes in found]
    return [axes for axes, count in zip(found, workers, strict=True) if count <= _MAX_WORKERS]


def _find(
    file: ArrayFile, key: str | None, *, transpose: bool, channel_axes: str | None
) -> tuple[StoredArray, str]:
    """The array of channels and the order of its axes; nothing of it is read."""
    if key is None and (stored := _own_layout(file)) is not None:
        axes = _axes_of_own_layout(stored, channel_axes)
    else:
        stored = _only_candidate(file, channel_axes) if key is None else file.array(key)
        axes = _axes_of(stored, channel_axes)
    return stored, _swapped(axes) if transpose else axes


def _own_layout(file: ArrayFile) -> StoredArray | None:
    """H in the layout of the field's public data."""
    hdf5 = getattr(file, "hdf5", None)
    if isinstance(hdf5, h5py.File) and CSI_DATASET in hdf5:
        return file.array(CSI_DATASET)
    return None


def _axes_of_own_layout(stored: StoredArray, channel_axes: str | None) -> str:
    """The axes of H in the layout of public data, which are known unless others are given."""
    if stored.kind != "real":
        raise InputError(
            f"holds {stored.dtype} in {CSI_DATASET}; accepted: real numbers, and complex antenna "
            f"coefficients in {ANTENNA_DATASET}"
        )
    possible = possible_axes(stored.shape, is_complex=False)
    if channel_axes is None and _GAIN_AXES in possible:
        return _GAIN_AXES
    return _axes_of(stored, channel_axes)


def _antenna_beside(file: ArrayFile) -> Tensor | None:
    """Antenna coefficients in the layout of public data, (N, L, K, n_R)."""
    hdf5 = getattr(file, "hdf5", None)
    if hdf5 is None or ANTENNA_DATASET not in hdf5:
        return None
    coefficients = dataset_in(hdf5, ANTENNA_DATASET)
    return torch.from_numpy(np.asarray(coefficients, dtype=np.complex64))


def _only_candidate(file: ArrayFile, channel_axes: str | None) -> StoredArray:
    """The only array of the file that may hold channels."""
    arrays = file.arrays()
    found = [array for array in arrays if array.kind and _may_have(array, channel_axes)]
    if len(found) == 1:
        return found[0]
    if not found:
        if len(arrays) == 1:
            return arrays[0]  # refused with the reason
        raise InputError(
            f"has no array that may hold channels; it has {listed(arrays)}; accepted: real or "
            "complex numbers of shape (N, L, L), (L, L, N) or (L, L), or complex (N, L, n_R)"
        )
    raise InputError(
        f"has {len(found)} arrays that may hold channels: {listed(found)}; accepted: the name of "
        f"one after a colon, as in FILE:{found[0].name}"
    )


def _may_have(array: StoredArray, channel_axes: str | None) -> bool:
    if channel_axes is not None:
        return len(channel_axes) == len(array.shape)
    return bool(possible_axes(array.shape, is_complex=array.kind == "complex"))


def _axes_of(stored: StoredArray, channel_axes: str | None) -> str:
    """The order of the axes of an array in a file."""
    if not stored.kind:
        raise InputError(
            f"holds {stored.dtype} in {stored.name or 'its array'}; accepted: real or complex "
            "numbers"
        )
    possible = possible_axes(stored.shape, is_complex=stored.kind == "complex")
    return _chosen_axes(stored.shape, stored.kind, possible, channel_axes, stored.name)


def _chosen_axes(
    shape: tuple[int, ...], kind: str, possible: list[str], given: str | None, name: str = ""
) -> str:
    """The order of axes that was given, if the array can have it, or the only possible one."""
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
                f"{has} and {kind} numbers, which channel_axes {given} does not fit; accepted: a "
                f"letter per axis, i and j of the same size up to {_MAX_WORKERS}, and r for "
                "complex numbers alone"
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
    """The order of axes with both worker axes exchanged."""
    if "r" in axes:
        raise InputError(
            "has antenna coefficients, which have one axis of workers; accepted: transpose for "
            "gains alone"
        )
    return axes.translate(str.maketrans("ij", "ji"))


def _interpreted(
    values: NDArray[Any] | Tensor, axes: str, noise_power_w: float | None
) -> Recording:
    """H of an array whose axes are known.

    Gains are H σ², effective coefficients g with |g|² = H σ², antenna coefficients h with the
    matched filter's H_ij = |h_iᴴ h_j|² / (σ² ‖h_i‖²).
    """
    if noise_power_w is not None and not (
        isinstance(noise_power_w, int | float) and 0 < noise_power_w < math.inf
    ):
        raise InputError(
            f"noise_power_w: {noise_power_w!r}; accepted: a finite number above 0, in W."
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
    """An array as a tensor of a type that the package computes in."""
    if isinstance(values, Tensor):
        is_integer = not (values.is_floating_point() or values.is_complex())
        return values.double() if is_integer and values.dtype != torch.bool else values
    native = {"f": np.float64, "i": np.float64, "u": np.float64, "c": np.complex128}
    is_single = values.dtype in (np.float32, np.complex64)
    dtype = values.dtype.newbyteorder("=") if is_single else native[values.dtype.kind]
    return torch.from_numpy(np.ascontiguousarray(values, dtype=dtype))


def _refuse_decibels(gains: Tensor) -> None:
    """Refuse gains that are negative as often as only gains in dB are."""
    negative = gains < 0
    share = float(negative.double().mean()) if gains.numel() else 0.0
    if share >= _NEGATIVE_SHARE and bool((gains.abs() < _MAX_ABS_DB).all()):
        low, high = gains.aminmax()
        raise InputError(
            f"csi: {share:.0%} of the gains are negative, from {low:g} to {high:g}, as if they "
            "were in dB; accepted: linear gains above 0, 10 ** (dB / 10)."
        )
