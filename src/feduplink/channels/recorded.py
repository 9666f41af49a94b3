"""Recorded channels in HDF5, in the layout of the field's public data.

``input/channel_to_noise_matched`` (N, L, L) float32 holds H; ``input/channel``, if present, the
complex antenna coefficients behind it, (N, L, K, n_R) for K base stations with n_R antennas.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import numpy as np
import torch
from torch import Tensor

from feduplink.channels.csi import check_antenna, check_csi, looks_like_decibels
from feduplink.channels.models import Realisations
from feduplink.errors import InputError
from feduplink.storage.hdf5 import dataset_in, reading_hdf5, writing_hdf5
from feduplink.storage.tensorfile import checksum

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

CSI_DATASET = "input/channel_to_noise_matched"
ANTENNA_DATASET = "input/channel"
#: Kinds of NumPy types that are real numbers: floating point, signed and unsigned integers.
_REAL_KINDS = "fiu"
#: Most workers, as of a scenario.
_WORKERS = 1024


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


def read_channels(path: str | os.PathLike[str]) -> Realisations:
    """Read and check recorded channels; raises :class:`InputError` with the reason."""
    with reading_hdf5(path, "channels") as file:
        recorded, antenna = _csi_dataset(file), None
        if ANTENNA_DATASET in file:
            coefficients = dataset_in(file, ANTENNA_DATASET)
            antenna = torch.from_numpy(np.asarray(coefficients, dtype=np.complex64))
        csi = torch.from_numpy(np.asarray(recorded, dtype=np.float32))
    try:
        check_csi(csi)
        if antenna is not None:
            check_antenna(antenna, csi)
    except InputError as error:
        raise InputError(f"channels: {path}: {error}") from None
    if looks_like_decibels(csi):
        warnings.warn(
            f"{path}: the gains are spread as evenly as if they were in dB; H is linear, "
            "10 ** (dB / 10)",
            stacklevel=2,
        )
    return Realisations(csi, antenna)


def recorded_workers(path: str | os.PathLike[str]) -> int:
    """The number of workers L of recorded channels, of which nothing else is read."""
    with reading_hdf5(path, "channels") as file:
        return int(_csi_dataset(file).shape[-1])


def _csi_dataset(file: h5py.File) -> h5py.Dataset:
    """The dataset of H; refused, before anything is read, if it cannot be H of some channels."""
    dataset = dataset_in(file, CSI_DATASET)
    shape = dataset.shape
    if dataset.dtype.kind not in _REAL_KINDS:
        raise InputError(
            f"holds {dataset.dtype} in {CSI_DATASET}; accepted: real numbers, and complex antenna "
            f"coefficients in {ANTENNA_DATASET}"
        )
    if len(shape) != 3 or shape[0] == 0 or shape[1] != shape[2] or not 1 <= shape[1] <= _WORKERS:
        raise InputError(
            f"has {CSI_DATASET} of shape {shape}; accepted: (N, L, L) with N >= 1 and L from 1 to "
            f"{_WORKERS}"
        )
    return dataset
