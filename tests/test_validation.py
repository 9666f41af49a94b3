from __future__ import annotations

import pytest
import torch

from feduplink import InputError
from feduplink.validation import usable_device


def test_the_cpu_is_always_usable():
    assert usable_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["mps", "abacus", "cuda:99"])
def test_unusable_devices_are_refused(name: str):
    with pytest.raises(InputError, match="device: "):
        usable_device(name)
