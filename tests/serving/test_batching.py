from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from feduplink.serving.batching import DynamicBatcher

from .conftest import channels, powers_of


class Computation:
    """Computes the powers of the test policy; waits for ``proceed``, fails for 13 workers."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.proceed = threading.Event()
        self.shapes: list[tuple[int, ...]] = []
        self.threads: set[threading.Thread] = set()
        self.batches: list[int] = []

    def __call__(self, csi: np.ndarray) -> np.ndarray:
        self.shapes.append(csi.shape)
        self.threads.add(threading.current_thread())
        self.started.set()
        assert self.proceed.wait(60)
        if csi.shape[-1] == 13:
            raise ValueError("13 workers")
        return powers_of(csi).astype(np.float32)

    def on_batch(self, count: int, seconds: float) -> None:
        assert seconds > 0
        self.batches.append(count)


async def allocate_during_first(computation: Computation, *requests: np.ndarray) -> list[object]:
    """Submit the first request, and the others while it is computed; powers or exceptions."""
    batcher = DynamicBatcher(computation, computation.on_batch)
    first = asyncio.create_task(batcher.allocate(requests[0]))
    await asyncio.to_thread(computation.started.wait, 60)
    others = [asyncio.create_task(batcher.allocate(csi)) for csi in requests[1:]]
    await asyncio.sleep(0)
    computation.proceed.set()
    return await asyncio.gather(first, *others, return_exceptions=True)


def test_requests_that_arrive_together_share_a_batch():
    computation = Computation()
    requests = [channels(count, 4) * (count + 1) for count in (1, 2, 1, 3)]
    found = asyncio.run(allocate_during_first(computation, *requests))
    assert computation.shapes == [(1, 4, 4), (6, 4, 4)]
    assert computation.batches == [1, 6]
    for csi, powers in zip(requests, found, strict=True):
        np.testing.assert_allclose(powers, powers_of(csi), rtol=1e-6)


def test_requests_of_different_numbers_of_workers_share_no_batch():
    computation = Computation()
    requests = [channels(1, workers) for workers in (4, 3, 5, 3, 5)]
    found = asyncio.run(allocate_during_first(computation, *requests))
    assert computation.shapes == [(1, 4, 4), (2, 3, 3), (2, 5, 5)]
    for csi, powers in zip(requests, found, strict=True):
        np.testing.assert_allclose(powers, powers_of(csi), rtol=1e-6)


def test_small_requests_are_computed_between_the_parts_of_a_large_one():
    computation = Computation()
    large, small = channels(150, 8), channels(2, 8)
    found = asyncio.run(allocate_during_first(computation, large, small))
    assert computation.shapes == [(64, 8, 8), (2, 8, 8), (64, 8, 8), (22, 8, 8)]
    np.testing.assert_allclose(found[0], powers_of(large), rtol=1e-6)
    np.testing.assert_allclose(found[1], powers_of(small), rtol=1e-6)
    order = []

    async def watched() -> None:
        batcher = DynamicBatcher(lambda csi: powers_of(csi), lambda *_: None)

        async def ask(name: str, csi: np.ndarray) -> None:
            await batcher.allocate(csi)
            order.append(name)

        await asyncio.gather(ask("large", channels(300, 8)), ask("small", small))

    asyncio.run(watched())
    assert order == ["small", "large"]


def test_a_channel_of_many_workers_is_a_batch_of_its_own():
    computation = Computation()
    requests = [channels(1, 100), channels(2, 100)]
    asyncio.run(allocate_during_first(computation, *requests))
    assert computation.shapes == [(1, 100, 100)] * 3


def test_a_failure_affects_only_its_own_batch():
    computation = Computation()
    fine, failed, also = asyncio.run(
        allocate_during_first(computation, channels(1, 4), channels(1, 13), channels(1, 4))
    )
    assert isinstance(failed, ValueError)
    np.testing.assert_allclose(fine, powers_of(channels(1, 4)), rtol=1e-6)
    np.testing.assert_allclose(also, fine)


def test_cancelled_requests_are_not_computed():
    computation = Computation()

    async def ask() -> None:
        batcher = DynamicBatcher(computation, computation.on_batch)
        first = asyncio.create_task(batcher.allocate(channels(1, 4)))
        await asyncio.to_thread(computation.started.wait, 5)
        gone = asyncio.create_task(batcher.allocate(channels(1, 5)))
        await asyncio.sleep(0)
        gone.cancel()
        computation.proceed.set()
        await first
        await batcher.allocate(channels(1, 6))
        with pytest.raises(asyncio.CancelledError):
            await gone

    asyncio.run(ask())
    assert computation.shapes == [(1, 4, 4), (1, 6, 6)]


def test_the_event_loop_is_not_blocked():
    """It sets ``proceed`` while the computation waits for it."""
    computation = Computation()
    [found] = asyncio.run(allocate_during_first(computation, channels(1, 4)))
    assert found.shape == (1, 4)
    assert threading.main_thread() not in computation.threads
