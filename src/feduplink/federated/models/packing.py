"""Where sequences of unequal length lie in memory: packed, without filling between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

#: Longest stretch. It bounds what is computed for a whole stretch at once, and with it the memory;
#: products of so many steps are large enough for a GPU.
_LONGEST_STRETCH = 32


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps in time, the same sequences running in all of them.

    Attributes:
        start: its first step in time.
        duration: its number of steps.
        running: how many sequences have not ended; they are the first ones.
        place: where its part of a packed tensor begins.

    """

    start: int
    duration: int
    running: int
    place: int

    def view_of(self, packed: Tensor) -> Tensor:
        """A view of this part of ``packed`` (N, ...): (running, duration, ...)."""
        part = packed[self.place : self.place + self.running * self.duration]
        return part.view(self.running, self.duration, *packed.shape[1:])


class Packing:
    """M sequences of falling length in N = Σ lengths places, stretch by stretch.

    In a stretch the steps of one sequence are neighbours, so that a product with a matrix per
    sequence is one batched product; a sequence that has ended takes neither memory nor time.

    Attributes:
        stretches: in the order of time, which is also that of memory.
        sequence: which sequence lies at a place, (N,) int64.
        time: which of its steps, (N,) int64.

    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self.stretches = _stretches(lengths)
        sequences, times = [], []
        first = np.zeros(lengths[0], np.int64)  # place of a step of sequence 0, by time
        apart = np.zeros(lengths[0], np.int64)  # places from one sequence to the next, by time
        for s in self.stretches:
            steps = np.arange(s.start, s.start + s.duration)
            sequences.append(np.repeat(np.arange(s.running), s.duration))
            times.append(np.tile(steps, s.running))
            first[steps] = s.place + steps - s.start
            apart[steps] = s.duration

        def moved(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Tensor:
            return torch.from_numpy(values).to(device)

        self.sequence, self.time = moved(np.concatenate(sequences)), moved(np.concatenate(times))
        self._first, self._apart = moved(first), moved(apart)

    def place(self, sequence: Tensor, time: Tensor) -> Tensor:
        """Where steps ``time`` of ``sequence`` lie; both int64, of shapes that broadcast."""
        return self._first[time] + sequence * self._apart[time]


def _stretches(lengths: Sequence[int]) -> list[Stretch]:
    """A stretch ends where a sequence does, and after :data:`_LONGEST_STRETCH` steps."""
    ends = sorted({*lengths, *range(_LONGEST_STRETCH, lengths[0], _LONGEST_STRETCH)})
    stretches, start, place, running = [], 0, 0, len(lengths)
    for end in ends:
        while lengths[running - 1] <= start:
            running -= 1
        stretches.append(Stretch(start, end - start, running, place))
        place += running * (end - start)
        start = end
    return stretches
