"""A policy that was exported, run by ONNX Runtime."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from feduplink.channels.csi import check_csi
from feduplink.errors import InputError
from feduplink.scenario import Scenario
from feduplink.storage.files import read_limited

if TYPE_CHECKING:
    from types import ModuleType

#: Names in the file: of its input, its output, and of what is said about it.
CSI, POWER, METADATA = "csi", "power_w", "feduplink"
#: Among what is said about a file is its checksum, with this in the place of the checksum.
_UNKNOWN = "0" * 64
CHECKSUM_TO_COME = {"sha256": _UNKNOWN}
_CHECKSUM = re.compile(rb'"sha256": "([0-9a-f]{64})"')
#: How a file says where else weights are.
_ELSEWHERE = b"\x0a\x08location"
#: Of a file: that of pdx has a thousandth of it.
_MOST_BYTES = 1 << 28
#: Of what ONNX Runtime says of a file.
_MOST_CHARACTERS = 300


class OnnxPolicy:
    """Powers from an exported policy; threads may share it.

    Attributes:
        metadata: what :func:`feduplink.export.export_onnx` wrote: ``policy``, ``scenario``,
            ``version``, ``workers``, ``units``, ``multipliers``.
        scenario: that it was made for.
        fixed_workers: the only number of workers it takes, or None.

    """

    def __init__(self, file: str | os.PathLike[str], *, threads: int = 1) -> None:
        runtime = _onnxruntime()
        path = Path(file)
        content = read_limited(path, "policy", _MOST_BYTES)
        if not _is_whole(content):
            raise InputError(
                f"policy: {path} is no exported policy, or damaged; accepted: what 'feduplink "
                "export' writes."
            )
        if _ELSEWHERE in content:
            raise InputError(
                f"policy: {path} has weights in another file; accepted: a file that holds them all."
            )
        options = runtime.SessionOptions()
        # One allocation is small: a second thread costs more than it brings.
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # To plan which buffers can be used again takes longer than new ones.
        options.enable_mem_reuse = False
        # What it would print it also raises.
        options.log_severity_level = 4
        try:
            self._session = runtime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
            # Without them every call makes its own, a fiftieth of its time.
            self._as_usual = runtime.RunOptions()
            written = self._session.get_modelmeta().custom_metadata_map[METADATA]
            self.metadata: dict[str, Any] = json.loads(written)
            self.scenario = Scenario(**self.metadata["scenario"])
            self.fixed_workers: int | None = self.metadata["workers"]
            self._check_answer()
        except Exception as error:  # ONNX Runtime's classes have no common base of their own
            reason = " ".join(str(error).split())[:_MOST_CHARACTERS]
            raise InputError(
                f"policy: {path} is no exported policy ({reason}); accepted: what 'feduplink "
                "export' writes."
            ) from None

    def _check_answer(self) -> None:
        """Whether it is for the scenario's workers, and what it computes are powers."""
        if not isinstance(self.metadata["policy"], str):
            raise ValueError("its policy has no name")
        if self.fixed_workers not in (None, self.scenario.workers):
            raise ValueError("its workers are not those of its scenario")
        workers = self.fixed_workers or 2
        powers = self.run(np.ones((3, workers, workers), np.float32))
        if powers.shape != (3, workers) or powers.dtype != np.float32:
            raise ValueError("what it computes are no powers per channel and worker")
        # NaN is not in the range either.
        if not ((powers >= 0) & (powers <= 1.001 * float(self.scenario.pmax_w.max()))).all():
            raise ValueError("its powers are not between zero and Pmax")

    def allocate(self, csi: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """Transmit powers in W for valid CSI: (..., L, L) to (..., L), in [0, Pmax]."""
        csi = np.ascontiguousarray(csi, dtype=np.float32)
        check_csi(torch.from_numpy(csi), self.fixed_workers)
        return self.run(csi.reshape(-1, *csi.shape[-2:])).reshape(csi.shape[:-1])

    def run(self, csi: NDArray[np.float32]) -> NDArray[np.float32]:
        """As :meth:`allocate` for CSI (N, L, L) that was checked already."""
        powers: NDArray[np.float32] = self._session.run([POWER], {CSI: csi}, self._as_usual)[0]
        return powers


def with_checksum(content: bytes) -> bytes:
    """The file with its checksum in the place of :data:`CHECKSUM_TO_COME`."""
    digest = hashlib.sha256(content).hexdigest()
    return content.replace(_UNKNOWN.encode(), digest.encode(), 1)


def _is_whole(content: bytes) -> bool:
    """Whether the file has its own checksum: ONNX Runtime need not look at any other."""
    if (found := _CHECKSUM.search(content)) is None:
        return False
    unsigned = content.replace(found[1], _UNKNOWN.encode(), 1)
    return with_checksum(unsigned) == content


def _onnxruntime() -> ModuleType:
    try:
        import onnxruntime
    except ImportError:
        raise InputError(
            "onnx: needs ONNX Runtime, which is not installed; pip install 'feduplink[export]'."
        ) from None
    found: ModuleType = onnxruntime
    return found
