"""Dataclasses of tensors that share a leading batch dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorRecord:
    """Base class of frozen dataclasses that describe M rows by tensors of shape (M, ...).

    A field may also be a record of M rows, or a tuple or mapping of tensors and records. Operations
    on rows do not change the fields named in :attr:`shared` or values that are not tensors.

    >>> @dataclass(frozen=True)
    ... class Points(TensorRecord):
    ...     shared: ClassVar = frozenset({"scale"})
    ...     position: Tensor
    ...     scale: Tensor
    >>> points = Points(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor(10.0))
    >>> points.take(torch.tensor([1]))
    Points(position=tensor([[3., 4.]]), scale=tensor(10.))
    """

    #: Names of the fields without the batch dimension.
    shared: ClassVar[frozenset[str]] = frozenset()

    def take(self, index: Tensor | slice) -> Self:
        """Select rows.

        Args:
            index: indices (K,), a mask (M,) bool, or a slice.

        Returns:
            The record of these rows.
        """
        return self._map(lambda own: own[index])

    def select(self, alternative: Tensor) -> Self:
        """Select one of A alternatives for each of N rows, from a record of A·N rows.

        The first N rows belong to the first alternative, the next N to the second and so on, as
        after :meth:`concat`.

        Args:
            alternative: index of the alternative, (N,) int64 in [0, A).

        Returns:
            The record of N rows.
        """
        count = len(alternative)
        return self.take(alternative * count + torch.arange(count, device=alternative.device))

    def where(self, mask: Tensor, other: Self) -> Self:
        """Rows of ``other`` where ``mask`` (M,) is True, rows of this record elsewhere."""
        return self._map(
            lambda own, new: torch.where(mask.view(-1, *[1] * (own.ndim - 1)), new, own), other
        )

    def with_rows(self, index: Tensor, rows: Self) -> Self:
        """Copy with the rows ``index`` (K,) replaced by the K rows of ``rows``."""
        return self._map(lambda own, new: own.index_copy(0, index, new), rows)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Concatenate records along the batch dimension; shared values are those of the first."""
        return parts[0]._map(lambda *tensors: torch.cat(tensors), *parts[1:])

    def to(self, target: torch.device | torch.dtype | str) -> Self:
        """Copy with all tensors on a device, or with floating-point tensors of another dtype.

        Args:
            target: device, or floating-point dtype.

        Returns:
            The record.
        """

        def moved(own: Tensor) -> Tensor:
            converts = own.is_floating_point() or not isinstance(target, torch.dtype)
            return own.to(target) if converts else own

        return self._map(moved, rows_only=False)

    def _map(
        self, change: Callable[..., Tensor], *others: TensorRecord, rows_only: bool = True
    ) -> Self:
        """Apply ``change`` to every tensor, together with the corresponding tensors of ``others``.

        ``rows_only`` excludes the fields named in :attr:`shared`.
        """

        def mapped(value: Any, *rest: Any) -> Any:
            if isinstance(value, Tensor):
                return change(value, *rest)
            if isinstance(value, TensorRecord):
                return value._map(change, *rest, rows_only=rows_only)
            if isinstance(value, tuple):
                return tuple(mapped(*parts) for parts in zip(value, *rest, strict=True))
            if isinstance(value, Mapping):
                return {key: mapped(own, *(new[key] for new in rest)) for key, own in value.items()}
            return value

        columns = {
            field.name: [getattr(record, field.name) for record in (self, *others)]
            for field in fields(self)
        }
        return type(self)(
            *(
                column[0] if rows_only and name in self.shared else mapped(*column)
                for name, column in columns.items()
            )
        )
