"""Whether a proof is about the channels of a recording."""

from __future__ import annotations

import os

import numpy as np

from feduplink.errors import InputError
from feduplink.hdf5_file import dataset_in, reading_hdf5
from feduplink.proofs.proof import Proof

#: Where the field's public data has the channels H, (n, L, L).
_DATASET = "input/channel_to_noise_matched"


def check_recording(proof: Proof, path: str | os.PathLike[str]) -> None:
    """Refuse unless the proof's channels are, bit for bit, those rows of the file at ``path``.

    A proof of drawn channels names no rows; it is compared with all channels of the file.
    """
    with reading_hdf5(path, "channels") as file:
        dataset = dataset_in(file, _DATASET)
        rows = np.arange(len(dataset)) if proof.rows is None else proof.rows
        same = dataset.shape[1:] == proof.csi.shape[1:] and len(rows) == len(proof.csi)
        same = same and bool((rows < len(dataset)).all())
        csi = np.asarray(dataset, dtype=np.float32) if same else None
    if csi is None or not np.array_equal(csi[rows], proof.csi):
        raise InputError(f"channels: the proof is about other channels than those of {path}.")
