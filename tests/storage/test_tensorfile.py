"""Files of tensors, and the identities in them: functions of names, settings and data."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from feduplink import InputError, Measure, Scenario
from feduplink.link import EnergyEfficiency, PacketSuccess
from feduplink.registry import MEASURES
from feduplink.storage.tensorfile import (
    TensorFile,
    object_identity,
    pack,
    read_tensors,
    unpack,
    write_tensors,
)

CONTENT = TensorFile(
    {"weights": torch.tensor([[1.5, -2.0]]), "generator": torch.arange(4, dtype=torch.uint8)},
    {"scenario": {"workers": 8, "pmax_dbw": -20.0}, "note": "naïve"},
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "state.safetensors"
    write_tensors(path, "policy", CONTENT)
    return path


def test_the_round_trip_is_exact(file):
    read = read_tensors(file, "policy")
    assert read.tensors.keys() == CONTENT.tensors.keys()
    for name, tensor in CONTENT.tensors.items():
        assert torch.equal(read.tensors[name], tensor)
        assert read.tensors[name].dtype == tensor.dtype
    assert CONTENT.header.items() <= read.header.items()


def test_equal_contents_give_equal_bytes(file, tmp_path):
    for attempt in range(5):
        write_tensors(tmp_path / f"{attempt}", "policy", CONTENT)
        assert (tmp_path / f"{attempt}").read_bytes() == file.read_bytes()


def test_flipped_bits_are_detected(file):
    original = file.read_bytes()
    intact = read_tensors(file, "policy")
    for position in range(len(original)):
        damaged = bytearray(original)
        damaged[position] ^= 1 << position % 8
        file.write_bytes(damaged)
        try:
            read = read_tensors(file, "policy")
        except InputError:
            continue
        # A flip that is not detected, say in the padding, changes nothing.
        assert read.header == intact.header, position
        assert all(torch.equal(read.tensors[k], v) for k, v in intact.tensors.items()), position


def test_truncated_files_are_refused(file):
    original = file.read_bytes()
    for length in range(len(original)):
        file.write_bytes(original[:length])
        with pytest.raises(InputError, match=r"^policy: "):
            read_tensors(file, "policy")


def test_another_kind_is_refused(file):
    with pytest.raises(InputError, match=r"contains a policy; accepted: a training checkpoint"):
        read_tensors(file, "training checkpoint")


def test_foreign_and_missing_files_are_refused(tmp_path):
    save_file({"weights": torch.ones(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(InputError, match="was not written by feduplink"):
        read_tensors(tmp_path / "foreign.safetensors", "policy")
    with pytest.raises(InputError, match="does not exist"):
        read_tensors(tmp_path / "nothing.safetensors", "policy")
    with pytest.raises(InputError, match=r"^policy: "):
        read_tensors(tmp_path, "policy")


def test_a_failed_write_leaves_no_file(tmp_path):
    with pytest.raises(TypeError):
        write_tensors(tmp_path / "state", "policy", TensorFile({}, {"unjsonable": object()}))
    assert list(tmp_path.iterdir()) == []


@dataclass
class Inner:
    weights: Tensor


@dataclass(frozen=True)
class Outer:
    """All kinds of settings."""

    rate: float = 0.1
    pair: tuple[float, str] = (0.5, "a")
    scenario: Scenario = field(default_factory=Scenario)
    inner: Inner | None = None
    rule: Callable[..., Any] = torch.nn.functional.mse_loss
    kind: type = int


class Another(Outer):
    """A class with the same attributes."""


def inner(first: float) -> Inner:
    return Inner(torch.tensor([first, 2.0]))


def network(out: float = 1.0, p: float = 0.5) -> nn.Module:
    layer = nn.Linear(1, 1)
    nn.init.constant_(layer.weight, out)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(layer, nn.Dropout(p))


cross_entropy = nn.functional.cross_entropy
DIFFERENT = [
    Outer(),
    Outer(rate=0.2),
    Outer(pair=(0.5, "b")),
    Outer(scenario=Scenario(workers=3)),
    Outer(inner=inner(1.0)),
    Outer(inner=inner(1.5)),
    Outer(rule=torch.nn.functional.l1_loss),
    Outer(kind=float),
    Another(),
    cross_entropy,
    nn.functional.nll_loss,
    functools.partial(cross_entropy, reduction="none"),
    functools.partial(cross_entropy, reduction="none", label_smoothing=0.1),
    functools.partial(nn.functional.nll_loss, reduction="none"),
    nn.CrossEntropyLoss(),
    nn.CrossEntropyLoss(label_smoothing=0.1),
    nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0])),
    network(),
    network(out=2.0),
]


def test_different_classes_settings_and_numbers_have_different_identities():
    identities = [json.dumps(object_identity(thing)) for thing in DIFFERENT]
    assert len(set(identities)) == len(identities)


@pytest.mark.parametrize("make", [lambda: Outer(inner=inner(1.0)), network, nn.CrossEntropyLoss])
def test_equal_objects_have_equal_identities(make: Callable[[], object]):
    assert object_identity(make()) == object_identity(make())


def test_code_is_not_part_of_an_identity():
    def defined(factor: float) -> Measure:
        class Mine(Measure):
            name = "mine"

            def value(self, sinr: Tensor, power: Tensor) -> Tensor:
                return factor * sinr

        return Mine()

    assert object_identity(defined(1.0)) == object_identity(defined(2.0))


def test_identities_use_registered_names_or_import_paths():
    assert object_identity(PacketSuccess(0.023), MEASURES) == {
        "name": "psr",
        "settings": {"waterfall": 0.023},
    }
    assert object_identity(Another(), MEASURES)["name"] == f"{__name__}:Another"
    efficiencies = [
        object_identity(EnergyEfficiency(torch.tensor(watts), 1.0), MEASURES)
        for watts in (0.01, 0.02)
    ]
    assert efficiencies[0]["name"] == "energy_efficiency"
    assert efficiencies[0] != efficiencies[1]


@dataclass
class Named:
    name: str


def test_objects_of_named_classes_are_packed_as_their_names():
    packed = pack([Named("a"), Named("b")], {Named: "name"})
    assert unpack(packed, [], {"Named": str.upper}) == ["A", "B"]


def test_objects_of_classes_without_names_are_found_by_their_class():
    here = Named("a")
    assert unpack(pack(here, {Named: None}), [], {"Named": lambda _name: here}) is here
