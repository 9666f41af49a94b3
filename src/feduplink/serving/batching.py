"""Dynamic batching: requests that arrive during a computation share the next one.

One thread computes. Requests that arrive meanwhile are queued, and those with as many workers as
the first of the queue form the next batch, so that a request to an idle service does not wait.
The size of a batch is limited: a large request is computed in parts, and small requests are
computed between them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from feduplink.serving.payloads import Array

#: Maximum number of gains in a batch, N·L·L: 64 channels of 8 workers. Larger batches take no less
#: time per channel, and delay other requests.
MAX_BATCH_GAINS = 4096

Compute = Callable[[Array], Array]
#: Called with the number of channels of a batch and its time, s.
BatchCallback = Callable[[int, float], None]


@dataclass
class _Request:
    """A queued request.

    Attributes:
        csi: (N, L, L).
        powers: (N, L) W, valid for the first ``done`` channels.
        completed: Set once all powers are valid.
    """

    csi: Array
    powers: Array
    completed: asyncio.Future[None]
    done: int = 0

    def fail(self, error: Exception) -> None:
        if not self.completed.done():
            self.completed.set_exception(error)


@dataclass(frozen=True)
class _Part:
    """Channels of a request in the present batch."""

    request: _Request
    count: int

    @property
    def channels(self) -> slice:
        return slice(self.request.done, self.request.done + self.count)


class DynamicBatcher:
    """Computes powers in a thread, for several requests at a time.

    Args:
        compute: Maps CSI (N, L, L) to powers (N, L), W.
        on_batch: Called after every batch.
    """

    def __init__(self, compute: Compute, on_batch: BatchCallback) -> None:
        self.compute = compute
        self.on_batch = on_batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="allocation")
        self._queue: deque[_Request] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def allocate(self, csi: Array) -> Array:
        """Powers (N, L) in W for CSI (N, L, L)."""
        completed = asyncio.get_running_loop().create_future()
        request = _Request(csi, np.empty(csi.shape[:-1], np.float32), completed)
        self._queue.append(request)
        if self._worker is None:
            self._worker = asyncio.create_task(self._compute_queue())
        await completed
        return request.powers

    async def drain(self) -> None:
        """Wait until the queue is empty."""
        if self._worker is not None:
            await self._worker

    async def _compute_queue(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while parts := self._next_batch():
                channels = [part.request.csi[part.channels] for part in parts]
                csi = channels[0] if len(channels) == 1 else np.concatenate(channels)
                start = time.perf_counter()
                try:
                    powers = await loop.run_in_executor(self._thread, self.compute, csi)
                except Exception as error:
                    for part in parts:
                        part.request.fail(error)
                    continue
                self.on_batch(len(csi), time.perf_counter() - start)
                self._distribute(powers, parts)
        finally:
            self._worker = None

    def _next_batch(self) -> list[_Part]:
        """Take the next batch from the queue, all with as many workers as the first request.

        Drops requests that have been answered already, for example by a timeout.
        """
        parts: list[_Part] = []
        others: deque[_Request] = deque()
        capacity = 0
        while self._queue:
            request = self._queue.popleft()
            if request.completed.done():
                continue
            if not parts:
                capacity = max(1, MAX_BATCH_GAINS // request.csi[0].size)
            if capacity == 0 or (parts and request.csi.shape[1] != parts[0].request.csi.shape[1]):
                others.append(request)
                continue
            count = min(capacity, len(request.csi) - request.done)
            capacity -= count
            parts.append(_Part(request, count))
        self._queue = others
        return parts

    def _distribute(self, powers: Array, parts: list[_Part]) -> None:
        """Copy the powers of a batch, (N, L), to its requests; queue those that are incomplete."""
        first = 0
        for part in parts:
            request = part.request
            request.powers[part.channels] = powers[first : first + part.count]
            first += part.count
            request.done += part.count
            if request.done < len(request.csi):
                self._queue.append(request)
            elif not request.completed.done():
                request.completed.set_result(None)
