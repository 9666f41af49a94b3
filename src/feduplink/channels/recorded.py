"""Recorded channels in HDF5, in the layout of the field's public data.

``input/channel_to_noise_matched`` (N, L, L) float32 holds H; ``input/channel``, if present, the
complex antenna coefficients behind it, (N, L, K, n_R) for K base stations with n_R antennas.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor

from feduplink.channels.channel_model import Channels
from feduplink.channels.csi import check_antenna, check_csi, looks_like_decibels
from feduplink.errors import InputError
from feduplink.files import replaced_atomically
from feduplink.tensorfile import checksum

CSI_DATASET = "input/channel_to_noise_matched"
ANTENNA_DATASET = "input/channel"
#: Kinds of NumPy types that are real numbers: floating point, signed and unsigned integers.
_REAL_KINDS = "fiu"


def recording_identity(recorded: Tensor | None) -> str:
    """What tells recorded channels from others, for the header of a checkpoint.

    Drawn ones, None, follow from scenario and seed.
    """
    return "drawn" if recorded is None else checksum({"recorded": recorded}, {})


def write_channels(path: str | os.PathLike[str], channels: Channels, *, scenario: str = "") -> None:
    """Write channels; ``scenario`` (YAML text) is kept as an attribute of the file.

    The file appears under its name only when it is complete.
    """
    csi = check_csi(channels.csi)
    with replaced_atomically(Path(path)) as temporary, h5py.File(temporary, "w") as file:
        file.create_dataset(CSI_DATASET, data=csi.to(torch.float32).numpy(), compression="gzip")
        if channels.antenna is not None:
            file.create_dataset(ANTENNA_DATASET, data=channels.antenna.numpy())
        file.attrs["scenario"] = scenario


def read_channels(path: str | os.PathLike[str]) -> Channels:
    """Read and check recorded channels; raises :class:`InputError` with the reason."""
    try:
        with h5py.File(path, "r") as file:
            if not isinstance(file.get(CSI_DATASET), h5py.Dataset):
                raise InputError(
                    f"channels: {path} has no dataset {CSI_DATASET}; accepted: HDF5 files with "
                    "that dataset, (N, L, L)."
                )
            if file[CSI_DATASET].dtype.kind not in _REAL_KINDS:
                raise InputError(
                    f"channels: {CSI_DATASET} of {path} holds {file[CSI_DATASET].dtype}; accepted: "
                    f"real numbers. Complex antenna coefficients go to {ANTENNA_DATASET}."
                )
            csi = torch.from_numpy(np.asarray(file[CSI_DATASET], dtype=np.float32))
            antenna = None
            if ANTENNA_DATASET in file:
                antenna = torch.from_numpy(np.asarray(file[ANTENNA_DATASET], dtype=np.complex64))
    except (OSError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"channels: {path} cannot be read as HDF5 (missing, truncated or another format): "
            f"{error}."
        ) from None
    if csi.ndim != 3 or len(csi) == 0:
        raise InputError(
            f"channels: {CSI_DATASET} of {path} has shape {tuple(csi.shape)}; accepted: (N, L, L) "
            "with N >= 1."
        )
    try:
        check_csi(csi)
        if antenna is not None:
            check_antenna(antenna, csi)
    except InputError as error:
        raise InputError(f"channels: {path}: {error}") from None
    if looks_like_decibels(csi):
        warnings.warn(
            f"{path}: the gains are so evenly spread as if they were in dB; H is linear, "
            "10 ** (dB / 10)",
            stacklevel=2,
        )
    return Channels(csi, antenna)
