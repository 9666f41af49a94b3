"""Boxes of powers and SINRs: the roots, their halves, and what limits imply for each other.

Every limit is rounded outward, so a region is never smaller than the box it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from feduplink.proofs.arithmetic import (
    down,
    noise_and_interference_down,
    noise_and_interference_up,
    up,
)
from feduplink.proofs.format import Booleans, Floats, Integers, Node

#: How often limits are propagated into each other at every box.
_ROUNDS = 2


@dataclass(frozen=True)
class Gains:
    """The channels of a few regions: α (n, L), and β with a zero diagonal (n, L, L)."""

    direct: Floats
    cross: Floats

    @classmethod
    def from_csi(cls, csi: Floats) -> Gains:
        """Of channels (n, L, L)."""
        cross = csi * (1 - np.eye(csi.shape[-1]))
        return cls(np.ascontiguousarray(np.diagonal(csi, axis1=1, axis2=2)), cross)

    def take(self, rows: Integers | Booleans) -> Gains:
        """Some of the channels."""
        return Gains(self.direct[rows], self.cross[rows])


@dataclass(frozen=True)
class Regions:
    """n regions of powers, (n, L) each, and of which channel each is, (n,).

    A worker is silent, or transmits, or ``may_be_silent``: may do either. If it transmits, its
    power in W and its SINR are within the limits.
    """

    channel: Integers
    power_low: Floats
    power_high: Floats
    sinr_low: Floats
    sinr_high: Floats
    may_be_silent: Booleans
    silent: Booleans
    empty: Booleans

    @classmethod
    def roots(cls, gains: Gains, pmax_w: Floats, floor: Floats) -> Regions:
        """One per channel: everyone silent, or above its floor at up to Pmax."""
        shape = gains.direct.shape
        return cls(
            np.arange(shape[0]),
            down(floor / gains.direct),
            np.broadcast_to(pmax_w, shape).copy(),
            np.broadcast_to(floor, shape).copy(),
            up(gains.direct * pmax_w),
            np.ones(shape, bool),
            np.zeros(shape, bool),
            np.zeros(shape[0], bool),
        )

    @staticmethod
    def concat(parts: list[Regions]) -> Regions:
        """All of several."""
        return Regions(
            *(
                np.concatenate(values)
                for values in zip(*(vars(p).values() for p in parts), strict=True)
            )
        )

    @property
    def heard(self) -> Booleans:
        """Who sends or may send, (n, L)."""
        return ~self.silent

    def take(self, rows: Integers | Booleans | slice) -> Regions:
        """Some of the regions."""
        return Regions(*(values[rows] for values in vars(self).values()))

    def halves(self, node: np.ndarray, worker: Integers, split_at: Floats) -> Regions:
        """The lower half of the first region, its upper half, those of the second, …, (2 n,).

        In the lower half the worker is silent or has no more than ``split_at``, or is silent if
        it is split by silence; in the upper half it sends, with no less.
        """
        both = self.take(np.repeat(np.arange(len(self.channel)), 2))
        node, worker, split_at = (np.repeat(values, 2) for values in (node, worker, split_at))
        upper = np.arange(len(node)) % 2 == 1
        for by, low, high in (
            (Node.BY_SINR, both.sinr_low, both.sinr_high),
            (Node.BY_POWER, both.power_low, both.power_high),
        ):
            rows = np.flatnonzero((node == by) & ~upper)
            at = rows, worker[rows]
            high[at] = np.minimum(high[at], split_at[rows])
            rows = np.flatnonzero((node == by) & upper)
            at = rows, worker[rows]
            low[at] = np.maximum(low[at], split_at[rows])
        rows = np.flatnonzero(upper)
        at = rows, worker[rows]
        both.empty[rows] |= both.silent[at]
        both.may_be_silent[at] = False
        rows = np.flatnonzero((node == Node.BY_SILENCE) & ~upper)
        at = rows, worker[rows]
        both.empty[rows] |= ~both.may_be_silent[at] & ~both.silent[at]
        both.may_be_silent[at] = False
        both.silent[at] = True
        return both

    def least_received(self, gains: Gains) -> Floats:
        """No more than the noise and interference of any powers in the region, (n, L)."""
        sure = np.where(self.may_be_silent | self.silent, 0.0, self.power_low)
        return noise_and_interference_down(gains.cross, sure)

    def most_received(self, gains: Gains) -> Floats:
        """No less than it, (n, L)."""
        return noise_and_interference_up(gains.cross, np.where(self.silent, 0.0, self.power_high))

    def tightened(self, gains: Gains, floor: Floats) -> Regions:
        """With limits of powers and SINRs propagated into each other.

        A worker whose limits leave nothing on the air is silent if it may rest; else the region is
        empty.
        """
        region = self
        # The limits of a region that is empty already may run away; nothing is done with them.
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(_ROUNDS):
                region = region._tightened_once(gains, floor)
        return region

    def _tightened_once(self, gains: Gains, floor: Floats) -> Regions:
        sure = ~self.may_be_silent & ~self.silent
        least, most = self.least_received(gains), self.most_received(gains)
        sinr_high = np.minimum(self.sinr_high, up(up(gains.direct * self.power_high) / least))
        reached = down(down(gains.direct * self.power_low) / most)
        sinr_low = np.where(sure, np.maximum(self.sinr_low, reached), self.sinr_low)
        needed = down(down(sinr_low * least) / gains.direct)
        power_low = np.maximum(self.power_low, needed)
        enough = up(up(sinr_high * most) / gains.direct)
        power_high = np.minimum(self.power_high, enough)
        nothing = (power_low > power_high) | (sinr_low > sinr_high) | (sinr_high <= floor)
        return replace(
            self,
            power_low=power_low,
            power_high=power_high,
            sinr_low=sinr_low,
            sinr_high=sinr_high,
            may_be_silent=self.may_be_silent & ~nothing,
            silent=self.silent | (nothing & self.may_be_silent),
            empty=self.empty | (nothing & sure).any(-1),
        )
