"""Export of a policy to an ONNX file, and comparison of the file with PyTorch."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from feduplink.channels import denoised_csi, draw_csi
from feduplink.errors import InputError
from feduplink.export.onnx_policy import (
    CHECKSUM_PLACEHOLDER,
    CSI,
    METADATA,
    POWER,
    OnnxPolicy,
    insert_checksum,
)
from feduplink.export.unrolled_graph import UnrolledGraph
from feduplink.policies import LagrangianPolicy, NeuralPolicy, Policy, UnrolledPolicy
from feduplink.policies.base import silence
from feduplink.progress import track
from feduplink.registry import POLICIES
from feduplink.scenario import Scenario
from feduplink.storage.files import replaced_atomically
from feduplink.validation import import_extra
from feduplink.version import __version__

#: Largest accepted difference to PyTorch, relative to Pmax.
TOLERANCE = 1e-5
#: Numbers of workers at which a policy for any number is compared, and channels for each.
CHECKED_WORKERS = (2, 8, 32, 100)
_CHECKED_CHANNELS = 50
_OPSET = 18


@dataclass(frozen=True)
class ExportedPolicy:
    """An exported policy.

    Attributes:
        file: the ONNX file.
        name: name of the policy.
        fixed_workers: the only accepted number of workers; None: any.
        differences: largest difference to ``policy.allocate`` over random channels, relative to
            Pmax, by number of workers.
    """

    file: Path
    name: str
    fixed_workers: int | None
    differences: dict[int, float]

    def __str__(self) -> str:
        """Name, file and difference in one sentence."""
        workers = self.fixed_workers or "any number of"
        sizes = ", ".join(map(str, self.differences))
        return (
            f"{self.name} for {workers} workers in {self.file}: differs from PyTorch by at most "
            f"{max(self.differences.values()):.1g} of Pmax, at {sizes} workers"
        )


@track("export to ONNX")
def export_onnx(policy: Policy, path: str | os.PathLike[str]) -> ExportedPolicy:
    """Export a policy to ONNX, and compare the file with PyTorch.

    The file maps ``csi`` (N, L, L) to ``power_w`` (N, L), both float32, for any N, and for any L
    unless the policy has a fixed number of workers. The package :mod:`feduplink.export` shows an
    example.

    Args:
        policy: ``pdx`` or a policy with a network.
        path: file to write.

    Returns:
        The file, and its differences to PyTorch.

    Raises:
        InputError: if the policy has no network, or the file differs from it by more than
            :data:`TOLERANCE`; no file is written then.
    """
    if not isinstance(policy, NeuralPolicy | UnrolledPolicy):
        raise InputError(
            f"export: the policy {policy.name} has no network; accepted: pdg, pdm, pdx or a "
            "network policy of your own."
        )
    file = Path(path)
    module = _Allocation(policy).eval()
    with replaced_atomically(file) as temporary:
        _write(module, policy, temporary)
        differences = _differences(policy, OnnxPolicy(temporary))
    return ExportedPolicy(file, policy.name, policy.fixed_workers, differences)


class _Allocation(nn.Module):
    """``policy.allocate`` as a module."""

    pmax_w: Tensor

    def __init__(self, policy: NeuralPolicy | UnrolledPolicy) -> None:
        super().__init__()
        self.silence_w, self.csi_noise = policy.silence_w, policy.scenario.csi_noise
        # () or (L,); a buffer, because tracing does not treat a cached property as a constant.
        self.register_buffer("pmax_w", policy.scenario.max_power.float())
        self.network = UnrolledGraph(policy) if isinstance(policy, UnrolledPolicy) else policy

    def forward(self, csi: Tensor) -> Tensor:
        """Compute powers within [0, Pmax] in W, 0 below the policy's threshold.

        Args:
            csi: (N, L, L), float32, linear, relative to the noise power.

        Returns:
            (N, L), float32, W.
        """
        if isinstance(self.network, UnrolledGraph):
            power = self.pmax_w * self.network(denoised_csi(csi, self.csi_noise))
        else:
            power = self.network.powers(csi)
        return silence(torch.minimum(power.clamp_min(0.0), self.pmax_w), self.silence_w)


def _write(module: nn.Module, policy: UnrolledPolicy | NeuralPolicy, file: Path) -> None:
    """Write the module and the policy's metadata to an ONNX file."""
    onnx = import_extra("onnx", "export")
    opset18 = import_extra("onnxscript", "export").opset18

    # ONNX Runtime's sigmoid has an absolute error of 1e-7, which is too large for small powers, but
    # not for the gates of pdx.
    def sigmoid(x: Any) -> Any:
        return opset18.Exp(opset18.Neg(softplus(opset18.Neg(x))))

    # PyTorch's softplus is the identity above a threshold; that of ONNX equals it up to rounding.
    def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
        assert (beta, threshold) == (1.0, 20.0)
        return opset18.Softplus(x)

    translations: dict[Callable[..., Any], Callable[..., Any]] = {
        torch.ops.aten.softplus.default: softplus
    }
    if isinstance(policy, NeuralPolicy):  # its powers are Pmax times a sigmoid
        translations[torch.ops.aten.sigmoid.default] = sigmoid
    sizes = {0: torch.export.Dim("N", min=1)}
    if policy.fixed_workers is None:
        workers = torch.export.Dim("L", min=1)
        sizes |= {1: workers, 2: workers}
    example = _draw_csi(policy, policy.scenario.workers, 3)
    with torch.no_grad(), _silent_exporter():
        module(example)  # fills caches before the module is traced
        program = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            verbose=False,
            opset_version=_OPSET,
            input_names=[CSI],
            output_names=[POWER],
            dynamic_shapes=(sizes,),
            custom_translation_table=translations,
        )
    assert program is not None
    model = program.model_proto
    entry = model.metadata_props.add()
    entry.key, entry.value = METADATA, json.dumps(_metadata(policy))
    onnx.checker.check_model(model)
    file.write_bytes(insert_checksum(model.SerializeToString()))


def _metadata(policy: UnrolledPolicy | NeuralPolicy) -> dict[str, Any]:
    """Metadata of the policy as JSON values."""
    multipliers = None
    if isinstance(policy, LagrangianPolicy):
        multipliers = {name: values.tolist() for name, values in policy.point.tensors().items()}
    return {
        "policy": POLICIES.name_of(type(policy)),
        "version": __version__,
        **CHECKSUM_PLACEHOLDER,
        "scenario": policy.scenario.model_dump(mode="json"),
        "workers": policy.fixed_workers,
        "silence_w": policy.silence_w,
        "units": {CSI: "gain over noise power, 1/W, (N, L, L)", POWER: "W, (N, L)"},
        "multipliers": multipliers,
    }


def _differences(policy: UnrolledPolicy | NeuralPolicy, exported: OnnxPolicy) -> dict[int, float]:
    """Largest differences to PyTorch relative to Pmax, by number of workers.

    Raises:
        InputError: if one exceeds :data:`TOLERANCE`.
    """
    differences = {}
    pmax_w = float(policy.scenario.max_power.max())
    for workers in [policy.fixed_workers] if policy.fixed_workers else CHECKED_WORKERS:
        csi = _draw_csi(policy, workers, _CHECKED_CHANNELS)
        difference = np.abs(policy.allocate(csi).numpy() - exported.allocate(csi.numpy()))
        differences[workers] = float(difference.max()) / pmax_w
    if max(differences.values()) > TOLERANCE:
        raise InputError(
            f"export: ONNX and PyTorch differ by {max(differences.values()):.2g} of Pmax; "
            f"accepted: at most {TOLERANCE:g}."
        )
    return differences


def _draw_csi(policy: UnrolledPolicy | NeuralPolicy, workers: int, count: int) -> Tensor:
    """Channels (count, L, L) of the default cell with L workers, scaled to the policy's Pmax."""
    cell = Scenario(workers=workers)
    csi = draw_csi(cell, count, torch.Generator().manual_seed(0))
    return csi * float(cell.max_power / policy.scenario.max_power.max())


@contextlib.contextmanager
def _silent_exporter() -> Iterator[None]:
    """Suppress the exporter's messages about optional packages."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
