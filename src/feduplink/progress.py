"""Progress callbacks, and progress bars on a terminal or in a notebook.

Work reports its beginning, every step and its end to observers: those it is given, those of the
enclosing blocks (:func:`observed_by`), and progress bars where somebody watches: on a terminal
(standard error) and in a notebook, not in pipes, files and tests.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tqdm import tqdm

#: Environment variable that turns progress bars off if set to 0.
VARIABLE = "FEDUPLINK_PROGRESS"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Advance:
    """A step of work.

    Attributes:
        done: amount of work done so far, of the work's ``total`` and in its unit.
        figures: quantities to display, by name.
        detail: the full record of this step in its own type: an
            :class:`~feduplink.training.Epoch`, a :class:`~feduplink.federated.FinishedRound`, a
            :class:`~feduplink.optimum.DualStep`, a :class:`~feduplink.optimum.Certificate`.
    """

    done: float
    figures: Mapping[str, float] = field(default_factory=dict)
    detail: object = None


@dataclass(frozen=True, eq=False)
class Work:
    """A task that reports its progress; two works are different objects even with equal titles.

    Attributes:
        title: what is being done.
        total: amount of work at most; None if unknown.
        unit: what is counted, in the plural: ``epochs``.
        earlier: steps already done by the run that this one resumes.
        transient: whether its bar disappears when it ends.
    """

    title: str
    total: float | None = None
    unit: str = ""
    earlier: Sequence[Advance] = ()
    transient: bool = False


class Observer:
    """Callbacks of work; a subclass overrides those it needs.

    >>> class Printer(Observer):
    ...     def advance(self, work: Work, step: Advance) -> None:
    ...         print(f"{work.title}: {step.done:g} of {work.total:g} {work.unit}")

    An exception raised by an observer ends the work, after all other observers were called.
    """

    def begin(self, work: Work) -> None:
        """Called before the first step."""

    def advance(self, work: Work, step: Advance) -> None:
        """Called after every step."""

    def end(self, work: Work) -> None:
        """Called after the last step, also when the work failed."""


_observers: ContextVar[tuple[Observer, ...]] = ContextVar("feduplink-observers", default=())


@contextlib.contextmanager
def observed_by(*observers: Observer) -> Iterator[None]:
    """Report all work inside the block to these observers as well."""
    token = _observers.set((*_observers.get(), *observers))
    try:
        yield
    finally:
        _observers.reset(token)


@dataclass(frozen=True)
class Tracker:
    """Work in progress with its observers."""

    work: Work
    observers: Sequence[Observer]

    def advance(
        self, done: float, figures: Mapping[str, float] | None = None, detail: object = None
    ) -> None:
        """Report a step; the arguments are the fields of :class:`Advance`."""
        step = Advance(done, figures or {}, detail)
        _call_all(self.observers, lambda observer: observer.advance(self.work, step))


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
    """Report the block as work; the arguments are the fields of :class:`Work`.

    As a decorator it reports every call of a function:

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
        _call_all(begun, lambda observer: observer.end(work))


def track_each(title: str, items: Collection[_T], unit: str = "") -> Iterator[_T]:
    """Iterate over ``items`` and report the loop as work."""
    with track(title, len(items), unit) as tracker:
        for number, item in enumerate(items):
            yield item
            tracker.advance(number + 1)


def _call_all(observers: Sequence[Observer], call: Callable[[Observer], None]) -> None:
    """Call every observer, then raise the first exception that one of them raised."""
    failures: list[Exception] = []
    for observer in observers:
        try:
            call(observer)
        except Exception as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


_shown = True


class show_progress:
    """Turn progress bars on or off, from the call on or, as a context manager, for a block.

    ``FEDUPLINK_PROGRESS=0`` in the environment turns them off in any case.

    >>> with show_progress(False):
    ...     pass  # no bars here
    """

    def __init__(self, shown: bool = True) -> None:
        global _shown
        self._before, _shown = _shown, shown

    def __enter__(self) -> None:
        """The setting is in force since the call."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _shown
        _shown = self._before


class ProgressBars(Observer):
    """A bar of ``tqdm`` for each work in progress; only the outermost one stays when it ends.

    Args:
        delay_s: time after which a bar appears, so that short work shows none, s.
    """

    def __init__(self, delay_s: float = 1.0) -> None:
        self.delay_s = delay_s
        self._bars: dict[Work, tqdm[Any]] = {}

    def begin(self, work: Work) -> None:
        """Create the bar."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without ipywidgets gets a text bar
            from tqdm.auto import tqdm

        self._bars[work] = tqdm(
            desc=work.title,
            total=work.total,
            unit=f" {work.unit or 'steps'}",
            initial=work.earlier[-1].done if work.earlier else 0,
            leave=not self._bars and not work.transient,
            delay=self.delay_s,
            dynamic_ncols=True,
            file=sys.stderr,
        )

    def advance(self, work: Work, step: Advance) -> None:
        """Move the bar and show the figures with four digits."""
        bar = self._bars[work]
        if step.figures:
            shown = {
                name: f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
                for name, value in step.figures.items()
            }
            bar.set_postfix(shown, refresh=False)
        bar.update(step.done - bar.n)

    def end(self, work: Work) -> None:
        """Close the bar."""
        self._bars.pop(work).close()


_bars = ProgressBars()


def progress_observers() -> tuple[Observer, ...]:
    """Progress bars if somebody watches and they are on, else nothing."""
    if not _shown or os.environ.get(VARIABLE) == "0":
        return ()
    watched = _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
    return (_bars,) if watched else ()


def _in_notebook() -> bool:
    """Whether a Jupyter kernel or Colab runs this; imports nothing to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ in ("ZMQInteractiveShell", "Shell")
