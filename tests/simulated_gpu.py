"""A simulated GPU: tensors on PyTorch's ``meta`` device, computed on the CPU.

As CUDA does, the simulation refuses operations on tensors of two devices. It counts the kernels
launched and the waits of the CPU for a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

GPU = torch.device("meta")
_aten = torch.ops.aten
#: Operations for which the CPU waits.
_WAITS = (_aten._local_scalar_dense.default, _aten.nonzero.default, _aten.equal.default)
#: Operations that take indices on the CPU as well.
_INDEXED = (_aten.index.Tensor, _aten.index_put_.default, _aten._index_put_impl_.default)


class _OnGpu(Tensor):
    """A tensor of the simulated device; ``held`` has its values."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> _OnGpu:
        self = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=GPU
        )
        self.held = held
        return self

    # What PyTorch would do itself.
    def item(self) -> Any:
        return _aten._local_scalar_dense(self.reshape(()))

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def new_tensor(self, data: Any) -> Tensor:
        return torch.tensor(data).to(self)

    def tolist(self) -> Any:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(
        cls, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise AssertionError(f"{func}: outside the simulation.")


class SimulatedGpu(TorchDispatchMode):
    """While it is entered, ``GPU`` computes.

    Attributes:
        launches: how many operations have run there; views launch nothing.
        waits: how often the CPU has waited for them.
        written_bytes: of all their results.
    """

    def __init__(self) -> None:
        super().__init__()
        self.launches = 0
        self.waits = 0
        self.written_bytes = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # Nothing is compiled here; to skip it means to load it.

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_gpu = any(isinstance(tensor, _OnGpu) for tensor in tensors)
        self.launches += on_gpu and not func.is_view
        self.waits += on_gpu and func in _WAITS
        if kwargs.get("device") is not None:
            on_gpu = torch.device(kwargs["device"]) == GPU
            kwargs["device"] = "cpu"
        elif on_gpu:
            _refuse_two_devices(func, args, tensors)
        args, kwargs = tree_map(lambda a: a.held if isinstance(a, _OnGpu) else a, (args, kwargs))
        result = func(*args, **kwargs)
        if not on_gpu:
            return result
        if not func.is_view:
            parts = [part for part in tree_leaves(result) if isinstance(part, Tensor)]
            self.written_bytes += sum(part.numel() * part.element_size() for part in parts)
        return tree_map(lambda a: _OnGpu(a) if isinstance(a, Tensor) else a, result)


def _refuse_two_devices(func: OpOverload, args: Any, tensors: list[Tensor]) -> None:
    if func is _aten.copy_.default or (func in _INDEXED and isinstance(args[0], _OnGpu)):
        return
    # Numbers may come from the CPU.
    if any(tensor.ndim and not isinstance(tensor, _OnGpu) for tensor in tensors):
        raise RuntimeError(f"{func}: tensors on the CPU and on the GPU.")


@contextmanager
def _weights_replaced() -> Iterator[None]:
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        yield
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)


@contextmanager
def simulated_gpu() -> Iterator[SimulatedGpu]:
    """A machine with one GPU, :data:`GPU`."""
    # Weights moved there become other tensors: their data on the CPU cannot be replaced in place.
    with _weights_replaced(), SimulatedGpu() as gpu:
        yield gpu
