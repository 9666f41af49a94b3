"""Whether a proof is about the channels of a recording."""

from __future__ import annotations

import os

import h5py
import numpy as np

from feduplink.errors import InputError
from feduplink.proofs.proof import Proof

#: Where the field's public data has the channels H, (n, L, L).
_DATASET = "input/channel_to_noise_matched"


def check_recording(proof: Proof, path: str | os.PathLike[str]) -> None:
    """Refuse unless the proof's channels are, bit for bit, those rows of the file at ``path``.

    A proof of drawn channels names no rows; it is compared with all channels of the file.
    """
    try:
        with h5py.File(path, "r") as file:
            dataset = file.get(_DATASET)
            if not isinstance(dataset, h5py.Dataset):
                raise InputError(
                    f"channels: {path} has no dataset {_DATASET}; accepted: HDF5 files with that "
                    "dataset, (N, L, L)."
                )
            rows = np.arange(len(dataset)) if proof.rows is None else proof.rows
            same = dataset.shape[1:] == proof.csi.shape[1:] and len(rows) == len(proof.csi)
            if not (same and (rows < len(dataset)).all()):
                raise _other_channels(path)
            csi = np.asarray(dataset, dtype=np.float32)
    except (OSError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"channels: {path} cannot be read as HDF5: {error}.") from None
    if not np.array_equal(csi[rows], proof.csi):
        raise _other_channels(path)


def _other_channels(path: str | os.PathLike[str]) -> InputError:
    return InputError(f"channels: the proof is about other channels than those of {path}.")
