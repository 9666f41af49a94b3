"""Which lanes train side by side.

A *lane* is one federation: one policy in one run. Lane p · runs + r is policy p in run r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

#: Weights that train side by side on a CPU, five lanes of MNIST. Fewer cost more calls, more push
#: each other out of the cache: a step reads or writes four numbers a weight, 26 MB in all.
_CPU_WEIGHTS_AT_ONCE = 1_600_000
#: Share of a GPU's free memory that one batch of lanes may take.
_GPU_MEMORY_SHARE = 0.6


def lanes_that_fit(
    device: torch.device, weights_of_a_lane: int, rehearse: Callable[[], object]
) -> int:
    """How many lanes train side by side: what fits the cache, or the GPU's memory.

    ``weights_of_a_lane`` counts those of all its workers; ``rehearse`` trains one lane for a
    round, which shows how much memory of a GPU that takes.
    """
    if device.type != "cuda":
        return max(1, _CPU_WEIGHTS_AT_ONCE // weights_of_a_lane)
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, int(_GPU_MEMORY_SHARE * free / max(1, _peak_memory(device, rehearse))))


def _peak_memory(device: torch.device, rehearse: Callable[[], object]) -> int:
    """Bytes of GPU memory that ``rehearse`` takes on top of what is taken."""
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    rehearse()
    peak = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    return peak


def side_by_side(policies: int, runs: int, at_once: int) -> Iterator[tuple[range, list[slice]]]:
    """Group the lanes: runs whose examples are gathered together, and lanes that train together.

    A group of lanes is contiguous: some runs of one policy, or all runs of some policies.
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
