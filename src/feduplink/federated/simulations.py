"""Which simulations train side by side.

A *simulation* is one federation: one policy in one run. Simulation p · runs + r is policy p in
run r.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

#: Weights that train side by side on a CPU, five simulations of MNIST. Fewer cost more calls, more
#: push each other out of the cache: a step reads or writes four numbers per weight, 26 MB in all.
_CPU_WEIGHTS_AT_ONCE = 1_600_000
#: Share of a GPU's free memory that one batch of simulations may take.
_GPU_MEMORY_SHARE = 0.6
#: Of sequences, the share that weights may take in addition; and the copies of a simulation's
#: weights that there are at once: models, gradients, and what a part of a step takes of both.
_GPU_WEIGHTS_SHARE, _COPIES_OF_WEIGHTS = 0.2, 8


@dataclass(frozen=True)
class Capacity:
    """How much trains side by side.

    Attributes:
        simulations: at most so many.
        room: of sequences, steps in time of all of them together; a training step that takes more
            is done in parts.

    """

    simulations: int
    room: float = math.inf


@dataclass(frozen=True)
class TrialRound:
    """One simulation, to see how much memory of a GPU it takes.

    Attributes:
        train: does a round of local training.
        measure: evaluates the global model.
        load: of sequences, the steps in time of the largest training step; else None.

    """

    train: Callable[[], object]
    measure: Callable[[], object]
    load: int | None


def measured_capacity(
    device: torch.device, weights_per_simulation: int, trial: TrialRound
) -> Capacity:
    """What fits the cache, or the GPU's memory; ``weights_per_simulation`` is of all its workers.

    Sequences are drawn, so the simulations of another step or round may take several times the
    memory of the one tried. What does not depend on the draw is the memory per step in time: the
    trial's peak over its load, with everything that is there anyhow counted in. It says how many
    steps in time there is room for, and each training step is cut into parts to keep to it.
    """
    if device.type != "cuda":
        return Capacity(max(1, _CPU_WEIGHTS_AT_ONCE // weights_per_simulation))
    # What an earlier federation of this process has left behind is free as well.
    gc.collect()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    memory = _GPU_MEMORY_SHARE * free
    training = _peak_memory(device, trial.train)
    measuring = _peak_memory(device, trial.measure)
    if trial.load is None:
        return Capacity(max(1, int(memory / max(training, measuring))))
    weights = 4 * _COPIES_OF_WEIGHTS * weights_per_simulation
    simulations = min(memory / measuring, _GPU_WEIGHTS_SHARE * free / weights)
    return Capacity(max(1, int(simulations)), memory * trial.load / training)


def _peak_memory(device: torch.device, work: Callable[[], object]) -> int:
    """Bytes of GPU memory that ``work`` takes on top of what is taken, at least 1."""
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    work()
    peak = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    return max(1, peak)


def side_by_side(policies: int, runs: int, at_once: int) -> Iterator[tuple[range, list[slice]]]:
    """Group the simulations: runs whose examples are gathered together, and who trains together.

    A group of simulations is contiguous: some runs of one policy, or all runs of some policies.
    """
    if at_once >= runs:
        some = at_once // runs
        groups = [slice(p * runs, min(p + some, policies) * runs) for p in range(0, policies, some)]
        yield range(runs), groups
        return
    for start in range(0, runs, at_once):
        chosen = range(start, min(start + at_once, runs))
        yield (
            chosen,
            [slice(p * runs + chosen.start, p * runs + chosen.stop) for p in range(policies)],
        )
