from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from feduplink.serving.batching import Batching

from .conftest import channels, powers_of


class Computation:
    """The powers of these tests; the first computation waits until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.shapes: list[tuple[int, ...]] = []
        self.threads: set[threading.Thread] = set()
        self.calls: list[int] = []

    def __call__(self, csi: np.ndarray) -> np.ndarray:
        self.shapes.append(csi.shape)
        self.threads.add(threading.current_thread())
        self.begun.set()
        assert self.go_on.wait(60)
        if csi.shape[-1] == 13:
            raise ValueError("no luck")
        return powers_of(csi).astype(np.float32)

    def computed(self, count: int, seconds: float) -> None:
        assert seconds > 0
        self.calls.append(count)


async def asked(computation: Computation, *requests: np.ndarray) -> list[object]:
    """The first request alone, the others while it is being computed."""
    batching = Batching(computation, computation.computed)
    first = asyncio.create_task(batching.allocate(requests[0]))
    await asyncio.to_thread(computation.begun.wait, 60)
    others = [asyncio.create_task(batching.allocate(csi)) for csi in requests[1:]]
    await asyncio.sleep(0)
    computation.go_on.set()
    return await asyncio.gather(first, *others, return_exceptions=True)


def test_those_that_arrive_together_are_computed_together():
    computation = Computation()
    requests = [channels(count, 4) * (count + 1) for count in (1, 2, 1, 3)]
    found = asyncio.run(asked(computation, *requests))
    assert computation.shapes == [(1, 4, 4), (6, 4, 4)]
    assert computation.calls == [1, 6]
    for csi, powers in zip(requests, found, strict=True):
        np.testing.assert_allclose(powers, powers_of(csi), rtol=1e-6)


def test_only_equal_numbers_of_workers_are():
    computation = Computation()
    requests = [channels(1, workers) for workers in (4, 3, 5, 3, 5)]
    found = asyncio.run(asked(computation, *requests))
    assert computation.shapes == [(1, 4, 4), (2, 3, 3), (2, 5, 5)]
    for csi, powers in zip(requests, found, strict=True):
        np.testing.assert_allclose(powers, powers_of(csi), rtol=1e-6)


def test_a_large_request_lets_others_pass():
    computation = Computation()
    large, small = channels(150, 8), channels(2, 8)
    found = asyncio.run(asked(computation, large, small))
    assert computation.shapes == [(64, 8, 8), (64, 8, 8), (24, 8, 8)]
    np.testing.assert_allclose(found[0], powers_of(large), rtol=1e-6)
    np.testing.assert_allclose(found[1], powers_of(small), rtol=1e-6)
    order = []

    async def watched() -> None:
        batching = Batching(lambda csi: powers_of(csi), lambda *_: None)

        async def ask(name: str, csi: np.ndarray) -> None:
            await batching.allocate(csi)
            order.append(name)

        await asyncio.gather(ask("large", channels(300, 8)), ask("small", small))

    asyncio.run(watched())
    assert order == ["small", "large"]


def test_a_channel_too_large_to_share_is_computed_alone():
    computation = Computation()
    requests = [channels(1, 100), channels(2, 100)]
    asyncio.run(asked(computation, *requests))
    assert computation.shapes == [(1, 100, 100)] * 3


def test_a_failure_concerns_only_those_it_happened_to():
    computation = Computation()
    fine, failed, also = asyncio.run(
        asked(computation, channels(1, 4), channels(1, 13), channels(1, 4))
    )
    assert isinstance(failed, ValueError)
    np.testing.assert_allclose(fine, powers_of(channels(1, 4)), rtol=1e-6)
    np.testing.assert_allclose(also, fine)


def test_who_no_longer_waits_is_left_out():
    computation = Computation()

    async def ask() -> None:
        batching = Batching(computation, computation.computed)
        first = asyncio.create_task(batching.allocate(channels(1, 4)))
        await asyncio.to_thread(computation.begun.wait, 5)
        gone = asyncio.create_task(batching.allocate(channels(1, 5)))
        await asyncio.sleep(0)
        gone.cancel()
        computation.go_on.set()
        await first
        await batching.finish()
        with pytest.raises(asyncio.CancelledError):
            await gone

    asyncio.run(ask())
    assert computation.shapes == [(1, 4, 4)]


def test_the_event_loop_goes_on_meanwhile():
    """It lets the computation go on only after having done something else."""
    computation = Computation()
    [found] = asyncio.run(asked(computation, channels(1, 4)))
    assert found.shape == (1, 4)
    assert threading.main_thread() not in computation.threads
