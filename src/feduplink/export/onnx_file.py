"""Export of a policy as an ONNX file, checked against PyTorch."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from feduplink.channels import denoised_csi, draw_csi
from feduplink.errors import InputError
from feduplink.export.onnx_policy import (
    CHECKSUM_TO_COME,
    CSI,
    METADATA,
    POWER,
    OnnxPolicy,
    with_checksum,
)
from feduplink.export.unrolled_graph import UnrolledGraph
from feduplink.policies import LagrangianPolicy, NeuralPolicy, Policy, UnrolledPolicy
from feduplink.policies.base import silence
from feduplink.progress import track
from feduplink.registry import POLICIES
from feduplink.scenario import Scenario
from feduplink.storage.files import replaced_atomically
from feduplink.version import __version__


def allocation_module(policy: Policy) -> nn.Module:
    """The module (N, L, L) float32 to (N, L) float32 that does what ``policy.allocate`` does."""
    if isinstance(policy, UnrolledPolicy):
        return _UnrolledAllocation(policy)
    if isinstance(policy, NeuralPolicy):
        return _NeuralAllocation(policy)
    raise InputError(
        f"export: {policy.name} is a computation in Python, no network; accepted: pdg, pdm, pdx "
        "and network policies of your own."
    )


class _Allocation(nn.Module, ABC):
    """Powers within [0, Pmax], silent below the policy's threshold."""

    pmax_w: Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.silence_w = policy.silence_w
        # () or (L,); a buffer, because what is cached while a function is traced is no number.
        self.register_buffer("pmax_w", policy.scenario.pmax_w.float())

    def forward(self, csi: Tensor) -> Tensor:
        """Powers in W, (N, L, L) to (N, L)."""
        power = torch.minimum(self.powers(csi).clamp_min(0.0), self.pmax_w)
        return silence(power, self.silence_w)

    @abstractmethod
    def powers(self, csi: Tensor) -> Tensor:
        """What the policy says before limits are applied, (N, L, L) to (N, L), W."""


class _NeuralAllocation(_Allocation):
    def __init__(self, policy: NeuralPolicy) -> None:
        super().__init__(policy)
        self.policy = policy

    def powers(self, csi: Tensor) -> Tensor:
        return self.policy.powers(csi)


class _UnrolledAllocation(_Allocation):
    def __init__(self, policy: UnrolledPolicy) -> None:
        super().__init__(policy)
        self.csi_noise = policy.scenario.csi_noise
        self.network = UnrolledGraph(policy)

    def powers(self, csi: Tensor) -> Tensor:
        relative: Tensor = self.network(denoised_csi(csi, self.csi_noise))
        return self.pmax_w * relative


#: Largest difference to PyTorch that is accepted, as a share of Pmax.
TOLERANCE = 1e-5
#: Numbers of workers that a policy for any number is checked at; and channels of each.
_SIZES = (2, 8, 32, 100)
_CHANNELS = 50
_OPSET = 18


@dataclass(frozen=True)
class ExportedPolicy:
    """An ONNX file that was checked.

    Attributes:
        file: where it is.
        differences: by number of workers, the largest difference to ``policy.allocate`` over
            random channels, as a share of Pmax.

    """

    file: Path
    differences: dict[int, float]


@track("export to ONNX")
def export_onnx(policy: Policy, path: str | os.PathLike[str]) -> ExportedPolicy:
    """Write ``policy`` to ``path`` and compare it with PyTorch; nothing stays if they differ.

    The file takes ``csi`` (N, L, L) float32 and gives ``power_w`` (N, L) float32, for any N, and
    any L unless the policy is for a fixed number of workers.
    """
    file = Path(path)
    module = allocation_module(policy).eval()
    with replaced_atomically(file) as temporary:
        _write(module, policy, temporary)
        differences = _differences(policy, OnnxPolicy(temporary))
    return ExportedPolicy(file, differences)


def _write(module: nn.Module, policy: Policy, file: Path) -> None:
    try:
        import onnx
        from onnxscript import opset18
    except ImportError:
        raise InputError(
            "onnx: export needs packages that are not installed; pip install 'feduplink[export]'."
        ) from None

    # ONNX Runtime's sigmoid has an absolute error of 1e-7; where it is small it has no digits left.
    # That is no matter for the gates inside pdx, which are not powers.
    def sigmoid(x: Any) -> Any:
        return opset18.Exp(opset18.Neg(softplus(opset18.Neg(x))))

    # PyTorch's is the identity from a threshold on, where ONNX's is so anyway.
    def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
        assert (beta, threshold) == (1.0, 20.0)
        return opset18.Softplus(x)

    sizes = {0: torch.export.Dim("N", min=1)}
    if policy.fixed_workers is None:
        workers = torch.export.Dim("L", min=1)
        sizes |= {1: workers, 2: workers}
    example = _channels(policy, policy.scenario.workers, 3)
    with torch.no_grad(), _quiet():
        module(example)  # so that nothing is cached while it is traced
        program = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            verbose=False,
            opset_version=_OPSET,
            input_names=[CSI],
            output_names=[POWER],
            dynamic_shapes=(sizes,),
            custom_translation_table={
                torch.ops.aten.softplus.default: softplus,
                **({torch.ops.aten.sigmoid.default: sigmoid} if _ends_in_sigmoid(policy) else {}),
            },
        )
    assert program is not None
    model = program.model_proto
    entry = model.metadata_props.add()
    entry.key, entry.value = METADATA, json.dumps(_metadata(policy))
    onnx.checker.check_model(model)
    file.write_bytes(with_checksum(model.SerializeToString()))


def _ends_in_sigmoid(policy: Policy) -> bool:
    """Whether powers are a sigmoid times Pmax."""
    return isinstance(policy, NeuralPolicy)


def _metadata(policy: Policy) -> dict[str, Any]:
    multipliers = None
    if isinstance(policy, LagrangianPolicy):
        multipliers = {name: values.tolist() for name, values in policy.point.tensors().items()}
    return {
        "policy": POLICIES.name_of(type(policy)),
        "version": __version__,
        **CHECKSUM_TO_COME,
        "scenario": policy.scenario.model_dump(mode="json"),
        "workers": policy.fixed_workers,
        "silence_w": policy.silence_w,
        "units": {CSI: "gain over noise power, 1/W, (N, L, L)", POWER: "W, (N, L)"},
        "multipliers": multipliers,
    }


def _differences(policy: Policy, exported: OnnxPolicy) -> dict[int, float]:
    found = {}
    largest_w = float(policy.scenario.pmax_w.max())
    for workers in [policy.fixed_workers] if policy.fixed_workers else _SIZES:
        csi = _channels(policy, workers, _CHANNELS)
        ours, theirs = policy.allocate(csi).numpy(), exported.allocate(csi.numpy())
        found[workers] = float(np.abs(ours - theirs).max()) / largest_w
    if max(found.values()) > TOLERANCE:
        raise InputError(
            f"export: ONNX and PyTorch differ by {max(found.values()):.2g} of Pmax; accepted: "
            f"{TOLERANCE:g}."
        )
    return found


def _channels(policy: Policy, workers: int, count: int) -> Tensor:
    """Channels of the default cell with so many workers, its Pmax being the policy's."""
    cell = Scenario(workers=workers)
    csi = draw_csi(cell, count, torch.Generator().manual_seed(0))
    return csi * float(cell.pmax_w / policy.scenario.pmax_w.max())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter speaks of packages that nobody needs here."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
