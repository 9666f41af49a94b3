"""The tree of a branch and bound, recorded so that somebody else can check it.

Every channel has a root: each worker is silent or sends at ln p ≤ ln Pmax with an ln SINR of no
less than its floor (``Relaxation.roots``). Every other node is one half of its parent, and both
halves are there, so the leaves cover the root. Each leaf claims an upper bound on the Lagrangian
over its region, the slack for workers under their floor included, and says how to prove it; the
largest claim of a channel bounds its Lagrangian.

A region is not stored: it follows from the path from the root, by the rules of
:func:`feduplink.optimum.boxes.split` and of ``Relaxation.tightened``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

#: How a leaf's bound is proved: each worker's best ends, a tangent of the concave relaxation, or
#: that nothing is left of the region.
MONOTONE, TANGENT, EMPTY = 0, 1, 2


@dataclass(frozen=True)
class Tangents:
    """What fixes the linearisation that bounds a box, (T, L) each.

    Attributes:
        at_log_power: the point ln p at which the relaxation is linearised; 0 for silent workers.
        sinr_slope: slope ≥ 0 in ln SINR of the line above a worker's value.
        rate_end: which of McCormick's two lines bounds R q: True for (R, q) at the upper ends of
            ln SINR and ln p, False at the lower ones.
    """

    at_log_power: Tensor
    sinr_slope: Tensor
    rate_end: Tensor

    def take(self, index: Tensor) -> Tangents:
        """Those of some boxes, by index or mask."""
        return Tangents(self.at_log_power[index], self.sinr_slope[index], self.rate_end[index])

    @staticmethod
    def concat(parts: list[Tangents]) -> Tangents:
        """Those of several batches."""
        return Tangents(
            torch.cat([part.at_log_power for part in parts]),
            torch.cat([part.sinr_slope for part in parts]),
            torch.cat([part.rate_end for part in parts]),
        )


@dataclass(frozen=True)
class BranchingTree:
    """The M nodes of all channels' trees as flat arrays on the CPU, a parent before its halves.

    Attributes:
        channel: of which channel, (M,) int64.
        parent: its row, −1 for a root, (M,) int64.
        how: how the parent was split into this node and its sibling, ``SINR``, ``POWER`` or
            ``REST`` (:mod:`feduplink.optimum.boxes`), −1 for a root, (M,) int8.
        worker: which worker's, −1 for a root, (M,) int64.
        point: at which ln SINR or ln p; unused for ``REST`` and for a root, (M,) float64.
        upper_half: whether this node is the upper half; for ``REST`` that in which the worker is
            surely on the air, (M,) bool.
        leaf: whether it was not split, (M,) bool.
        upper: of a leaf, the claimed bound; −∞ for an empty one, (M,) float64.
        bound: of a leaf, its proof: :data:`MONOTONE`, :data:`TANGENT` or :data:`EMPTY`; −1 for a
            node that was split, (M,) int8.
        tangent_row: of a leaf with a tangent its row in ``tangents``, else −1, (M,) int64.
        tangents: the linearisations, (T, L) each.
    """

    channel: Tensor
    parent: Tensor
    how: Tensor
    worker: Tensor
    point: Tensor
    upper_half: Tensor
    leaf: Tensor
    upper: Tensor
    bound: Tensor
    tangent_row: Tensor
    tangents: Tangents

    def channel_bounds(self, channels: int) -> Tensor:
        """The largest claim among the leaves of every channel, (N,)."""
        most = torch.full((channels,), -torch.inf, dtype=torch.float64)
        return most.scatter_reduce(0, self.channel[self.leaf], self.upper[self.leaf], "amax")


class TreeRecorder:
    """Writes down splits and leaves while the search goes on."""

    def __init__(self, channels: int, workers: int) -> None:
        self._workers = workers
        roots = torch.arange(channels)
        absent = torch.full((channels,), -1)
        self._count = channels
        self._nodes = [
            {
                "channel": roots,
                "parent": absent,
                "how": absent.to(torch.int8),
                "worker": absent,
                "point": torch.zeros(channels, dtype=torch.float64),
                "upper_half": torch.zeros(channels, dtype=torch.bool),
            }
        ]
        self._leaves: list[tuple[Tensor, Tensor, int]] = []
        self._tangents: list[Tangents] = []

    def split(
        self, nodes: Tensor, channel: Tensor, how: Tensor, worker: Tensor, point: Tensor
    ) -> Tensor:
        """Split ``nodes`` (K,); returns the lower halves, then the upper ones, (2 K,)."""
        count = len(nodes)
        upper_half = torch.arange(2 * count) >= count
        self._nodes.append(
            {
                "channel": channel.cpu().repeat(2),
                "parent": nodes.cpu().repeat(2),
                "how": how.cpu().to(torch.int8).repeat(2),
                "worker": worker.cpu().repeat(2),
                "point": point.cpu().repeat(2),
                "upper_half": upper_half,
            }
        )
        first = self._count
        self._count += 2 * count
        return torch.arange(first, self._count, device=nodes.device)

    def close(self, nodes: Tensor, upper: Tensor, bound: int) -> None:
        """Make ``nodes`` leaves with a claimed bound, proved by their ends or empty."""
        self._leaves.append((nodes.cpu(), upper.cpu(), bound))

    def close_by_tangents(self, nodes: Tensor, upper: Tensor, tangents: Tangents) -> None:
        """Make ``nodes`` leaves whose bound a tangent proves."""
        self.close(nodes, upper, TANGENT)
        self._tangents.append(
            Tangents(
                tangents.at_log_power.cpu(), tangents.sinr_slope.cpu(), tangents.rate_end.cpu()
            )
        )

    def tree(self) -> BranchingTree:
        """What was recorded; every node must have been split or closed."""
        columns = {name: torch.cat([part[name] for part in self._nodes]) for name in self._nodes[0]}
        upper = torch.full((self._count,), -torch.inf, dtype=torch.float64)
        bound = torch.full((self._count,), -1, dtype=torch.int8)
        tangent_row = torch.full((self._count,), -1)
        rows = 0
        for nodes, values, proof in self._leaves:
            upper[nodes] = values
            bound[nodes] = proof
            if proof == TANGENT:
                tangent_row[nodes] = torch.arange(rows, rows + len(nodes))
                rows += len(nodes)
        nothing = torch.zeros(0, self._workers, dtype=torch.float64)
        tangents = Tangents.concat(
            [Tangents(nothing, nothing, nothing.to(torch.bool)), *self._tangents]
        )
        return BranchingTree(
            **columns,
            leaf=bound >= 0,
            upper=upper,
            bound=bound,
            tangent_row=tangent_row,
            tangents=tangents,
        )
