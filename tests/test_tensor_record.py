"""Operations on the rows of a record of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from feduplink.tensor_record import TensorRecord


@dataclass(frozen=True)
class Inner(TensorRecord):
    number: Tensor


@dataclass(frozen=True)
class Outer(TensorRecord):
    shared: ClassVar[frozenset[str]] = frozenset({"constant"})

    matrix: Tensor
    flag: Tensor
    inner: Inner
    pair: tuple[str, Tensor]
    by_name: dict[str, Tensor]
    constant: Tensor
    name: str


def _outer(rows: int, offset: int = 0) -> Outer:
    numbers = torch.arange(offset, offset + rows, dtype=torch.float64)
    return Outer(
        numbers[:, None] * torch.ones(1, 2, dtype=torch.float64),
        numbers.long() % 2 == 0,
        Inner(numbers),
        ("label", numbers + 0.5),
        {"negative": -numbers},
        torch.zeros(7),
        "outer",
    )


def _numbers(record: Outer) -> list[float]:
    numbers = record.inner.number
    assert torch.equal(record.matrix, numbers[:, None].expand(-1, 2))
    assert torch.equal(record.pair[1], numbers + 0.5)
    assert torch.equal(record.by_name["negative"], -numbers)
    assert torch.equal(record.flag, numbers.long() % 2 == 0)
    assert record.constant.shape == (7,)
    assert (record.name, record.pair[0]) == ("outer", "label")
    return numbers.tolist()


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (torch.tensor([3, 0]), [3, 0]),
        (torch.tensor([False, True, True, False]), [1, 2]),
        (slice(2, None), [2, 3]),
    ],
)
def test_take_indexes_all_fields_with_rows_and_keeps_the_others(index, expected):
    assert _numbers(_outer(4).take(index)) == expected


def test_concat_joins_rows_in_order():
    assert _numbers(Outer.concat([_outer(2), _outer(1, 10), _outer(2, 20)])) == [0, 1, 10, 20, 21]


def test_select_picks_one_alternative_per_row():
    alternatives = Outer.concat([_outer(3), _outer(3, 10), _outer(3, 20)])
    assert _numbers(alternatives.select(torch.tensor([2, 0, 1]))) == [20, 1, 12]


def test_where_mixes_two_records_row_by_row():
    mask = torch.tensor([True, False, True])
    assert _numbers(_outer(3).where(mask, _outer(3, 10))) == [10, 1, 12]


def test_with_rows_replaces_rows_without_changing_the_original():
    record = _outer(4)
    assert _numbers(record.with_rows(torch.tensor([1, 3]), _outer(2, 10))) == [0, 10, 2, 11]
    assert _numbers(record) == [0, 1, 2, 3]


def test_to_converts_floating_point_tensors_only():
    converted = _outer(2).to(torch.float32)
    assert converted.matrix.dtype == converted.inner.number.dtype == torch.float32
    assert converted.pair[1].dtype == torch.float32
    assert converted.flag.dtype == torch.bool
    assert _outer(2).to("meta").constant.device.type == "meta"


def test_a_subclass_keeps_its_type():
    @dataclass(frozen=True)
    class Child(Inner):
        extra: Tensor

    child = Child(torch.arange(3), torch.arange(3) * 2)
    assert isinstance(child.take(slice(1, 2)), Child)
