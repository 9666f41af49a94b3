"""What a channel model is: built for a scenario, it draws channel-state information.

One of your own is a class like this, registered (``CHANNEL_MODELS.register``), declared by an
installed package as an entry point ``feduplink.channel_models``, or named as
``package.module:Object``; ``Scenario(channel_model=NAME)`` and ``--channel-model NAME`` take it.

>>> import torch
>>> from feduplink.channels import draw_csi
>>> from feduplink.registry import CHANNEL_MODELS
>>> from feduplink.scenario import Scenario
>>> class Alike:
...     def __init__(self, scenario):
...         self.workers = scenario.workers
...
...     def draw(self, count, generator):
...         off_diagonal = torch.full((self.workers, self.workers), 10.0)
...         return off_diagonal.fill_diagonal_(100.0).repeat(count, 1, 1)
>>> CHANNEL_MODELS.register("alike", Alike).__name__
'Alike'
>>> draw_csi(Scenario(workers=2, channel_model="alike"), 1, torch.Generator())
tensor([[[100.,  10.],
         [ 10., 100.]]])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@dataclass(frozen=True, repr=False)
class Channels:
    """A draw of channels.

    Attributes:
        csi: H, (N, L, L) float32, linear, noise power one.
        antenna: the channels behind it, (N, L, K, n_R) complex64, amplitude gain; None unless
            asked for.

    """

    csi: Tensor
    antenna: Tensor | None = None

    def __repr__(self) -> str:
        """How many, and what is known of them."""
        count, workers, _ = self.csi.shape
        antennas = ""
        if self.antenna is not None:
            antennas = f", coefficients of {self.antenna.shape[-1]} antennas"
        return f"Channels({count} of {workers} workers{antennas})"


class ChannelModel(Protocol):
    """Draws channels of the scenario that it was built for.

    The scenario's ``interference`` is not its business: that factor is applied to what it draws.
    """

    def draw(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> Tensor:
        """H of ``count`` realisations, (count, L, L) float32, linear, noise power one.

        All random numbers come from ``generator``, on its device. With ``geometry: kept`` the
        realisations are the successive rounds of one run; then, and only then, ``cell`` may be
        given, from which comes what all draws of one cell share, as positions and obstacles.
        """


@runtime_checkable
class AntennaChannelModel(ChannelModel, Protocol):
    """A channel model that also gives the antenna coefficients behind H."""

    def draw_with_antennas(
        self, count: int, generator: torch.Generator, *, cell: torch.Generator | None = None
    ) -> Channels:
        """The same H as :meth:`draw`, with the coefficients (count, L, K, n_R) complex64."""
