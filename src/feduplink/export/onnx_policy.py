"""An exported policy, evaluated by ONNX Runtime; imports PyTorch only to validate CSI."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from feduplink.errors import InputError
from feduplink.scenario import Scenario
from feduplink.storage.files import read_limited
from feduplink.validation import import_extra

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Names of the input, the output and the metadata in the file.
CSI, POWER, METADATA = "csi", "power_w", "feduplink"
#: The metadata contains the SHA-256 of the file with this placeholder for it.
_PLACEHOLDER = "0" * 64
CHECKSUM_PLACEHOLDER = {"sha256": _PLACEHOLDER}
_CHECKSUM = re.compile(rb'"sha256": "([0-9a-f]{64})"')
#: Key of a reference to weights in another file, as encoded in ONNX.
_EXTERNAL_DATA = b"\x0a\x08location"
#: Maximum size of a file, a thousand times that of pdx.
_MAX_BYTES = 1 << 28
#: Maximum length of ONNX Runtime's message in an error, in characters.
_MAX_REASON = 300


class OnnxPolicy:
    """An exported policy; safe for use by several threads.

    Attributes:
        metadata: ``policy``, ``scenario``, ``version``, ``workers``, ``silence_w``, ``units`` and
            ``multipliers``, as :func:`feduplink.export.export_onnx` wrote them.
        scenario: scenario of the policy.
        fixed_workers: the only accepted number of workers; None: any.
    """

    def __init__(self, file: str | os.PathLike[str], *, threads: int = 1) -> None:
        """Load a file.

        Args:
            file: ONNX file written by ``export_onnx``.
            threads: number of threads per computation; one is fastest for a single channel.

        Raises:
            InputError: if the file is not an exported policy, or damaged.
        """
        runtime = import_extra("onnxruntime", "export")
        path = Path(file)
        content = read_limited(path, "policy", _MAX_BYTES)
        if not _is_intact(content):
            raise InputError(
                f"policy: {path} is not an exported policy, or damaged; accepted: a file written "
                "by 'feduplink export'."
            )
        if _EXTERNAL_DATA in content:
            raise InputError(
                f"policy: {path} refers to weights in another file; accepted: a file with all "
                "weights."
            )
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Planning the reuse of buffers takes longer than allocating new ones.
        options.enable_mem_reuse = False
        # Errors are raised as well as logged.
        options.log_severity_level = 4
        try:
            self._session = runtime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
            # Shared by all calls, because creating the options takes 2 % of a call.
            self._run_options = runtime.RunOptions()
            written = self._session.get_modelmeta().custom_metadata_map[METADATA]
            self.metadata: dict[str, Any] = json.loads(written)
            self.scenario = Scenario(**self.metadata["scenario"])
            self.fixed_workers: int | None = self.metadata["workers"]
            self._check_output()
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            reason = " ".join(str(error).split())[:_MAX_REASON]
            raise InputError(
                f"policy: {path} is not an exported policy ({reason}); accepted: a file written by "
                "'feduplink export'."
            ) from None

    def _check_output(self) -> None:
        """Check that the metadata is consistent, and that the powers are in [0, Pmax]."""
        if not isinstance(self.metadata["policy"], str):
            raise ValueError("the policy has no name")
        if self.fixed_workers not in (None, self.scenario.workers):
            raise ValueError("the number of workers differs from that of the scenario")
        workers = self.fixed_workers or 2
        powers = self.run(np.ones((3, workers, workers), np.float32))
        if powers.shape != (3, workers) or powers.dtype != np.float32:
            raise ValueError("the output is not one power per channel and worker")
        if not ((powers >= 0) & (powers <= 1.001 * float(self.scenario.max_power.max()))).all():
            raise ValueError("a power is not between 0 and Pmax")

    def allocate(self, csi: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """Compute transmit powers in [0, Pmax].

        Args:
            csi: H, (..., L, L), gains over the noise power, 1/W.

        Returns:
            Powers, (..., L), W.

        Raises:
            InputError: if ``csi`` is not valid CSI.
        """
        import torch

        from feduplink.channels import check_csi

        csi = np.ascontiguousarray(csi, dtype=np.float32)
        check_csi(torch.from_numpy(csi), self.fixed_workers)
        return self.run(csi.reshape(-1, *csi.shape[-2:])).reshape(csi.shape[:-1])

    def run(self, csi: NDArray[np.float32]) -> NDArray[np.float32]:
        """Compute transmit powers without validation.

        Args:
            csi: valid CSI, (N, L, L), float32, 1/W.

        Returns:
            Powers, (N, L), W.
        """
        powers: NDArray[np.float32] = self._session.run([POWER], {CSI: csi}, self._run_options)[0]
        return powers


def insert_checksum(content: bytes) -> bytes:
    """Replace :data:`CHECKSUM_PLACEHOLDER` in a file's content by the checksum of the content."""
    digest = hashlib.sha256(content).hexdigest()
    return content.replace(_PLACEHOLDER.encode(), digest.encode(), 1)


def _is_intact(content: bytes) -> bool:
    """Whether the file contains its own checksum, as required before ONNX Runtime parses it."""
    if (found := _CHECKSUM.search(content)) is None:
        return False
    unsigned = content.replace(found[1], _PLACEHOLDER.encode(), 1)
    return insert_checksum(unsigned) == content
