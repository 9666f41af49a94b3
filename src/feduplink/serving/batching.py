"""Requests that arrive together are computed together.

One thread computes; while it does, requests queue up, and those with as many workers as the first
of them go into its next computation. So a lone request waits for nobody. A computation takes only
so many channels: a large request is computed in several, between which others have their turn.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from feduplink.serving.csi_payload import Array

#: Gains in one computation, N·L·L: 64 channels of 8 workers. Time per channel falls no further
#: with more of them, and others wait longer.
_GAINS = 4096

Compute = Callable[[Array], Array]
#: Is told the channels of a computation and how long it took, s.
Computed = Callable[[int, float], None]


@dataclass
class _Request:
    """CSI (N, L, L), the powers (N, L) found for the first ``done`` channels, and who waits."""

    csi: Array
    powers: Array
    waiting: asyncio.Future[None]
    done: int = 0


@dataclass(frozen=True)
class _Part:
    """Channels of a request that are in the computation under way."""

    request: _Request
    count: int

    @property
    def span(self) -> slice:
        return slice(self.request.done, self.request.done + self.count)


class Batching:
    """Computes powers in a thread, for several requests at once.

    Attributes:
        compute: CSI (N, L, L) to powers (N, L) in W.
        computed: told of every computation.
    """

    def __init__(self, compute: Compute, computed: Computed) -> None:
        self.compute = compute
        self.computed = computed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="allocation")
        self._queue: deque[_Request] = deque()
        self._working: asyncio.Task[None] | None = None

    async def allocate(self, csi: Array) -> Array:
        """Powers (N, L) in W for CSI (N, L, L), once it is their turn."""
        waiting = asyncio.get_running_loop().create_future()
        request = _Request(csi, np.empty(csi.shape[:-1], np.float32), waiting)
        self._queue.append(request)
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        await waiting
        return request.powers

    async def finish(self) -> None:
        """Wait for what has been asked for."""
        if self._working is not None:
            await self._working

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while parts := self._next_parts():
                together = [part.request.csi[part.span] for part in parts]
                csi = together[0] if len(together) == 1 else np.concatenate(together)
                begun = time.perf_counter()
                try:
                    powers = await loop.run_in_executor(self._thread, self.compute, csi)
                except Exception as error:
                    for part in parts:
                        _fail(part.request, error)
                    continue
                self.computed(len(csi), time.perf_counter() - begun)
                self._hand_out(powers, parts)
        finally:
            self._working = None

    def _next_parts(self) -> list[_Part]:
        """Channels for the next computation, all of as many workers as the first request's.

        Requests whose client has been answered otherwise meanwhile are dropped.
        """
        parts: list[_Part] = []
        others: deque[_Request] = deque()
        room = 0
        while self._queue:
            request = self._queue.popleft()
            if request.waiting.done():
                continue
            if not parts:
                room = max(1, _GAINS // request.csi[0].size)
            if room == 0 or (parts and request.csi.shape[1] != parts[0].request.csi.shape[1]):
                others.append(request)
                continue
            count = min(room, len(request.csi) - request.done)
            room -= count
            parts.append(_Part(request, count))
        self._queue = others
        return parts

    def _hand_out(self, powers: Array, parts: list[_Part]) -> None:
        first = 0
        for part in parts:
            request = part.request
            request.powers[part.span] = powers[first : first + part.count]
            first += part.count
            request.done += part.count
            if request.done < len(request.csi):
                self._queue.append(request)
            elif not request.waiting.done():
                request.waiting.set_result(None)


def _fail(request: _Request, error: Exception) -> None:
    if not request.waiting.done():
        request.waiting.set_exception(error)
