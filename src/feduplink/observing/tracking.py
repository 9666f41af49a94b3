"""How work tells its observers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from feduplink.observing.events import Advance, Observer, Work
from feduplink.observing.progress import progress_observers

_T = TypeVar("_T")

_observers: ContextVar[tuple[Observer, ...]] = ContextVar("feduplink-observers", default=())


@contextlib.contextmanager
def observed_by(*observers: Observer) -> Iterator[None]:
    """All work inside the block tells these observers too."""
    token = _observers.set((*_observers.get(), *observers))
    try:
        yield
    finally:
        _observers.reset(token)


@dataclass(frozen=True)
class Tracker:
    """Work that is under way, and who watches it."""

    work: Work
    observers: Sequence[Observer]

    def advance(
        self, done: float, figures: Mapping[str, float] | None = None, detail: object = None
    ) -> None:
        """Tell of a step, see :class:`Advance`."""
        step = Advance(done, figures or {}, detail)
        _tell(self.observers, lambda observer: observer.advance(self.work, step))


@contextlib.contextmanager
def track(
    title: str,
    total: float | None = None,
    unit: str = "",
    observers: Sequence[Observer] = (),
    *,
    earlier: Sequence[Advance] = (),
    transient: bool = False,
) -> Iterator[Tracker]:
    """The block is work with this title, see :class:`Work`.

    It tells ``observers``, those of the blocks it is in (:func:`observed_by`), and who shows
    progress. As a decorator it makes every call of a function such work:

    >>> @track("counting")
    ... def count() -> int:
    ...     return 3
    """
    work = Work(title, total, unit, tuple(earlier), transient)
    watching = (*observers, *_observers.get(), *progress_observers())
    begun: list[Observer] = []
    try:
        for observer in watching:
            observer.begin(work)
            begun.append(observer)
        yield Tracker(work, watching)
    finally:
        _tell(begun, lambda observer: observer.end(work))


def track_each(title: str, items: Collection[_T], unit: str = "") -> Iterator[_T]:
    """The items one after the other; the loop over them is work with this title."""
    with track(title, len(items), unit) as tracker:
        for number, item in enumerate(items):
            yield item
            tracker.advance(number + 1)


def _tell(observers: Sequence[Observer], message: Callable[[Observer], None]) -> None:
    """Tell all of them, whatever one of them raises; then raise the first of that."""
    failures: list[Exception] = []
    for observer in observers:
        try:
            message(observer)
        except Exception as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
