"""An identity is a function of names, settings and data: nothing else, and all of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from feduplink import Scenario
from feduplink.link import EnergyEfficiency, Measure, PacketSuccess
from feduplink.registry import MEASURES
from feduplink.storage.tensorfile import object_identity


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
    """Of the same attributes."""


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
def test_the_same_made_again_has_the_same_identity(make: Callable[[], object]):
    assert object_identity(make()) == object_identity(make())


def test_code_is_not_part_of_an_identity():
    def defined(factor: float) -> Measure:
        class Mine(Measure):
            name = "mine"

            def value(self, sinr: Tensor, power: Tensor) -> Tensor:
                return factor * sinr

        return Mine()

    assert object_identity(defined(1.0)) == object_identity(defined(2.0))


def test_what_is_registered_goes_by_its_name_and_other_things_by_their_path():
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
