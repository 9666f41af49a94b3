"""Dynamic batching: requests that arrive during a computation share the next one.

One thread computes. Requests that arrive during a computation are queued; those with the same
number of workers as the first one form the next batch. A request to an idle service is computed
immediately. Large requests are split into parts, each queued after the previous one is computed, so
that small requests are computed in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from feduplink.serving.payloads import Array

#: Maximum number of gains in a batch, N·L·L: 64 channels of 8 workers. Larger batches are not
#: faster per channel and delay other requests.
MAX_BATCH_GAINS = 4096

Compute = Callable[[Array], Array]
#: Called with the number of channels of a batch and its time, s.
BatchCallback = Callable[[int, float], None]


@dataclass(frozen=True)
class _Part:
    """Channels of one request that are computed in one batch.

    Attributes:
        csi: H, (N, L, L), in 1/W.
        powers: future of the powers, (N, L), W.
    """

    csi: Array
    powers: asyncio.Future[Array]


class DynamicBatcher:
    """Computes powers in a thread, for several requests at a time.

    Args:
        compute: function from CSI (N, L, L), in 1/W, to powers (N, L), W.
        on_batch: callback after every batch.
    """

    def __init__(self, compute: Compute, on_batch: BatchCallback) -> None:
        self._compute, self._on_batch = compute, on_batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="allocation")
        self._queue: list[_Part] = []
        self._worker: asyncio.Task[None] | None = None

    async def allocate(self, csi: Array) -> Array:
        """Compute powers (N, L), W, for CSI (N, L, L), in 1/W."""
        size = max(1, MAX_BATCH_GAINS // csi[0].size)
        powers = [await self._enqueue(csi[n : n + size]) for n in range(0, len(csi), size)]
        return powers[0] if len(powers) == 1 else np.concatenate(powers)

    def _enqueue(self, csi: Array) -> asyncio.Future[Array]:
        """Queue a part of a request; starts the task that computes the queue."""
        part = _Part(csi, asyncio.get_running_loop().create_future())
        self._queue.append(part)
        if self._worker is None:
            self._worker = asyncio.create_task(self._compute_queue())
        return part.powers

    async def _compute_queue(self) -> None:
        """Compute batches until the queue is empty."""
        try:
            while batch := self._next_batch():
                await self._compute_batch(batch)
                await asyncio.sleep(0)  # large requests queue their next parts
        finally:
            self._worker = None

    async def _compute_batch(self, batch: list[_Part]) -> None:
        """Compute a batch in the thread and distribute its powers."""
        csi = batch[0].csi if len(batch) == 1 else np.concatenate([part.csi for part in batch])
        loop, start = asyncio.get_running_loop(), time.perf_counter()
        try:
            powers = await loop.run_in_executor(self._thread, self._compute, csi)
        except Exception as error:
            for part in batch:
                if not part.powers.done():
                    part.powers.set_exception(error)
            return
        self._on_batch(len(csi), time.perf_counter() - start)
        first = 0
        for part in batch:
            last = first + len(part.csi)
            if not part.powers.done():
                part.powers.set_result(powers[first:last])
            first = last

    def _next_batch(self) -> list[_Part]:
        """Remove the next batch from the queue, with the number of workers of the first part.

        Parts whose request has already been answered, for instance by a timeout, are dropped.
        """
        batch: list[_Part] = []
        others: list[_Part] = []
        gains = 0
        for part in self._queue:
            if part.powers.done():
                continue
            fits = not batch or (
                part.csi.shape[1] == batch[0].csi.shape[1]
                and gains + part.csi.size <= MAX_BATCH_GAINS
            )
            (batch if fits else others).append(part)
            gains += part.csi.size if fits else 0
        self._queue = others
        return batch
