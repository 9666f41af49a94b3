from __future__ import annotations

import pytest
import torch

from feduplink import InputError, Scenario
from feduplink.validation import ValidatedModel, usable_device


class Chosen(ValidatedModel):
    names: tuple[str, ...] = ()
    limits: float | tuple[float, ...] = 1.0


def test_the_cpu_is_always_usable():
    assert usable_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["mps", "abacus", "cuda:99"])
def test_unusable_devices_are_refused(name: str):
    with pytest.raises(InputError, match="device: "):
        usable_device(name)


def test_a_text_for_several_values_is_split_at_its_commas():
    assert Chosen(names="pdx, max").names == ("pdx", "max")
    assert Scenario(constraints="psr >= 0.9").constraints == ("psr >= 0.9",)


def test_a_text_for_a_field_that_also_takes_one_value_is_not_split():
    with pytest.raises(InputError, match="limits"):
        Chosen(limits="1,2")


def test_an_argument_of_another_type_is_refused():
    Scenario.check(Scenario(), "scenario")
    with pytest.raises(
        InputError, match=r"^scenario: str is not accepted; accepted: a feduplink\.Scenario\.$"
    ):
        Scenario.check("default", "scenario")
