"""Regions of the branch and bound: boxes of log-powers and log-SINRs, and how they are split."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from feduplink.optimum.branching_tree import Tangents

#: Ways to split a box: by the log-SINR or the log-power of a worker, or by whether it is silent.
SINR, POWER, REST = 0, 1, 2


@dataclass(frozen=True)
class Boxes:
    """Regions of the search: M boxes, each of one channel.

    Attributes:
        channel: index of the channel, (M,).
        t_low, t_high: limits of ln p for a worker on the air, (M, L).
        s_low, s_high: limits of ln SINR for a worker on the air, (M, L).
        may_rest: the worker may also be silent, (M, L) bool.
        silent: the worker is silent, (M, L) bool.
        node: the box's row in the recorded tree, (M,); −1 if nothing is recorded.
    """

    channel: Tensor
    t_low: Tensor
    t_high: Tensor
    s_low: Tensor
    s_high: Tensor
    may_rest: Tensor
    silent: Tensor
    node: Tensor

    def take(self, index: Tensor | slice) -> Boxes:
        """Some of the boxes, by index, mask or slice."""
        return Boxes(*(getattr(self, f.name)[index] for f in fields(self)))

    def with_rows(self, rows: Tensor, others: Boxes) -> Boxes:
        """With other boxes in the place of some, (R,)."""
        pairs = ((getattr(self, f.name), getattr(others, f.name)) for f in fields(self))
        return Boxes(*(old.index_copy(0, rows, new) for old, new in pairs))

    @staticmethod
    def concat(parts: list[Boxes]) -> Boxes:
        """All boxes of several batches."""
        return Boxes(*(torch.cat([getattr(p, f.name) for p in parts]) for f in fields(Boxes)))


@dataclass(frozen=True)
class Bounds:
    """What the relaxation says of each box.

    Attributes:
        upper: upper bound on the Lagrangian, (M,); −∞ for an empty box.
        power: where the relaxation is largest, (M, L) W; 0 for a worker better off silent.
        worker: which worker's relaxation is loosest there, (M,).
        how: what of it to split: :data:`SINR`, :data:`POWER`, or :data:`REST`, (M,).
        split_at: where, (M,).
        proof: ``MONOTONE``, ``TANGENT`` or ``EMPTY``, (M,) int8.
        tangents: the linearisation that was taken.
        upper_weight: of McCormick's planes, what suits the halves of the box, (M, L).
    """

    upper: Tensor
    power: Tensor
    worker: Tensor
    how: Tensor
    split_at: Tensor
    proof: Tensor
    tangents: Tangents
    upper_weight: Tensor

    def take(self, index: Tensor) -> Bounds:
        """Those of some of the boxes, by index or mask."""
        return Bounds(
            self.upper[index],
            self.power[index],
            self.worker[index],
            self.how[index],
            self.split_at[index],
            self.proof[index],
            self.tangents.take(index),
            self.upper_weight[index],
        )

    @staticmethod
    def concat(parts: list[Bounds]) -> Bounds:
        """Those of all boxes of several batches."""
        return Bounds(
            torch.cat([part.upper for part in parts]),
            torch.cat([part.power for part in parts]),
            torch.cat([part.worker for part in parts]),
            torch.cat([part.how for part in parts]),
            torch.cat([part.split_at for part in parts]),
            torch.cat([part.proof for part in parts]),
            Tangents.concat([part.tangents for part in parts]),
            torch.cat([part.upper_weight for part in parts]),
        )


def split(boxes: Boxes, bounds: Bounds, nodes: Tensor) -> Boxes:
    """The lower halves of all boxes, then the upper ones, (2 M,), with their ``nodes``."""
    rows = torch.arange(len(boxes.channel), device=boxes.channel.device)
    where = (rows, bounds.worker)

    def changed(values: Tensor, new: Tensor, apply: Tensor) -> Tensor:
        values = values.clone()
        values[where] = torch.where(apply, new, values[where])
        return values

    by_power, by_sinr, by_rest = (bounds.how == way for way in (POWER, SINR, REST))
    never, always = torch.zeros_like(by_rest), torch.ones_like(by_rest)
    lower = Boxes(
        boxes.channel,
        boxes.t_low,
        changed(boxes.t_high, bounds.split_at, by_power),
        boxes.s_low,
        changed(boxes.s_high, bounds.split_at, by_sinr),
        changed(boxes.may_rest, never, by_rest),
        changed(boxes.silent, always, by_rest),
        nodes[: len(rows)],
    )
    upper = Boxes(
        boxes.channel,
        changed(boxes.t_low, bounds.split_at, by_power),
        boxes.t_high,
        changed(boxes.s_low, bounds.split_at, by_sinr),
        boxes.s_high,
        # Silence is in the lower half already.
        changed(boxes.may_rest, never, always),
        boxes.silent,
        nodes[len(rows) :],
    )
    return Boxes.concat([lower, upper])
