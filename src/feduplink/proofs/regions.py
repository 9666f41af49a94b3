"""Regions of powers and SINRs: roots, halves, and propagation of limits.

Every limit is rounded outwards, so a region contains the box it represents.
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

#: Number of rounds of limit propagation per box.
_PROPAGATION_ROUNDS = 2


@dataclass(frozen=True)
class Gains:
    """Gains of n channels.

    Attributes:
        direct: α, (n, L), 1/W.
        cross: β with a zero diagonal, (n, L, L), 1/W.
    """

    direct: Floats
    cross: Floats

    @classmethod
    def from_csi(cls, csi: Floats) -> Gains:
        """Split channels (n, L, L) into direct and cross gains."""
        cross = csi * (1 - np.eye(csi.shape[-1]))
        return cls(np.ascontiguousarray(np.diagonal(csi, axis1=1, axis2=2)), cross)

    def take(self, rows: Integers | Booleans) -> Gains:
        """Select rows."""
        return Gains(self.direct[rows], self.cross[rows])


@dataclass(frozen=True)
class Regions:
    """n regions of powers; limits and flags are (n, L).

    Attributes:
        channel: channel of each region, (n,).
        power_low, power_high: limits of the power of a transmitting worker, W.
        sinr_low, sinr_high: limits of its SINR.
        may_be_silent: whether the worker may transmit or be silent.
        silent: whether the worker is silent.
        empty: whether the region is empty, (n,).
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
        """One region per channel: each worker is silent, or above its floor with up to Pmax.

        Args:
            gains: the channels.
            pmax_w: maximum transmit power, (L,), W.
            floor: SINR, (L,).
        """
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
        """Join regions along their rows."""
        return Regions(
            *(
                np.concatenate(values)
                for values in zip(*(vars(p).values() for p in parts), strict=True)
            )
        )

    @property
    def may_transmit(self) -> Booleans:
        """Whether a worker may transmit, (n, L)."""
        return ~self.silent

    def take(self, rows: Integers | Booleans | slice) -> Regions:
        """Select rows."""
        return Regions(*(values[rows] for values in vars(self).values()))

    def halves(self, node: np.ndarray, worker: Integers, split_at: Floats) -> Regions:
        """Split every region in two.

        In the lower half the worker is silent or at most at ``split_at``; it is silent after a
        split by silence. In the upper half it transmits, at or above ``split_at``.

        Args:
            node: kind of the split, a :class:`~feduplink.proofs.format.Node`, (n,).
            worker: worker whose quantity is split, (n,).
            split_at: SINR or power in W of the split, (n,).

        Returns:
            2 n regions: lower and upper half of the first, of the second, ….
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

    def least_interference(self, gains: Gains) -> Floats:
        """Lower bound on noise plus interference at any powers in the region, (n, L)."""
        transmits = np.where(self.may_be_silent | self.silent, 0.0, self.power_low)
        return noise_and_interference_down(gains.cross, transmits)

    def most_interference(self, gains: Gains) -> Floats:
        """Upper bound on noise plus interference at any powers in the region, (n, L)."""
        return noise_and_interference_up(gains.cross, np.where(self.silent, 0.0, self.power_high))

    def tightened(self, gains: Gains, floor: Floats) -> Regions:
        """Propagate the limits of powers and SINRs into each other.

        A worker with contradictory limits is silent if it may be; otherwise the region is empty.

        Args:
            gains: the channels of the regions.
            floor: SINR, (L,).
        """
        region = self
        # The limits of empty regions may overflow; they are not used.
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(_PROPAGATION_ROUNDS):
                region = region._tightened_once(gains, floor)
        return region

    def _tightened_once(self, gains: Gains, floor: Floats) -> Regions:
        """One round of propagation."""
        transmits = ~self.may_be_silent & ~self.silent
        least, most = self.least_interference(gains), self.most_interference(gains)
        sinr_high = np.minimum(self.sinr_high, up(up(gains.direct * self.power_high) / least))
        implied_sinr_low = down(down(gains.direct * self.power_low) / most)
        sinr_low = np.where(transmits, np.maximum(self.sinr_low, implied_sinr_low), self.sinr_low)
        implied_power_low = down(down(sinr_low * least) / gains.direct)
        power_low = np.maximum(self.power_low, implied_power_low)
        implied_power_high = up(up(sinr_high * most) / gains.direct)
        power_high = np.minimum(self.power_high, implied_power_high)
        contradiction = (power_low > power_high) | (sinr_low > sinr_high) | (sinr_high <= floor)
        return replace(
            self,
            power_low=power_low,
            power_high=power_high,
            sinr_low=sinr_low,
            sinr_high=sinr_high,
            may_be_silent=self.may_be_silent & ~contradiction,
            silent=self.silent | (contradiction & self.may_be_silent),
            empty=self.empty | (contradiction & transmits).any(-1),
        )
