"""Sionna draws from generators of its own, one per device; here they are ours for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from feduplink.sionna.library import config


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[str]:
    """Sionna's random numbers on the generator's device come from it, and it moves on with them.

    Afterwards Sionna's own generator goes on where it was. Gives the name of the device.
    """
    device = str(generator.device)
    theirs = config.torch_rng(device)
    before = theirs.get_state()
    theirs.set_state(generator.get_state())
    try:
        yield device
    finally:
        generator.set_state(theirs.get_state())
        theirs.set_state(before)
