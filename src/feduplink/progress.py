"""Progress callbacks, and progress bars on a terminal or in a notebook.

Long-running work reports its beginning, every step and its end to callbacks: those it is given,
those of the enclosing :func:`report_to` blocks, and progress bars. Bars appear on a terminal
(standard error) and in a notebook, never in pipes, files and tests.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tqdm import tqdm

#: Environment variable that turns progress bars off if set to 0.
VARIABLE = "FEDUPLINK_PROGRESS"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Step:
    """A step of work.

    Attributes:
        done: amount of work done so far, in the work's ``unit``, at most its ``total``.
        figures: quantities to display and to track, by name.
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
        total: largest amount of work; None if unknown.
        unit: what is counted, in the plural: ``epochs``.
        earlier: steps already done by the run that this one resumes.
        source: the object that does the work, such as a :class:`~feduplink.training.Trainer`.
    """

    title: str
    total: float | None = None
    unit: str = ""
    earlier: Sequence[Step] = ()
    source: object = None


class Callback:
    """Callbacks of long-running work; a subclass overrides those it needs.

    >>> class Printer(Callback):
    ...     def on_step(self, work: Work, step: Step) -> None:
    ...         print(f"{work.title}: {step.done:g} of {work.total:g} {work.unit}")

    An exception raised by a callback ends the work, after all other callbacks were called.
    """

    def on_begin(self, work: Work) -> None:
        """Called before the first step."""

    def on_step(self, work: Work, step: Step) -> None:
        """Called after every step."""

    def on_end(self, work: Work) -> None:
        """Called after the last step, also when the work failed."""


_enclosing: ContextVar[tuple[Callback, ...]] = ContextVar("feduplink-callbacks", default=())


@contextlib.contextmanager
def report_to(*callbacks: Callback) -> Iterator[None]:
    """Report all work inside the block to these callbacks as well."""
    token = _enclosing.set((*_enclosing.get(), *callbacks))
    try:
        yield
    finally:
        _enclosing.reset(token)


@dataclass(frozen=True)
class Progress:
    """Work in progress with its callbacks."""

    work: Work
    callbacks: Sequence[Callback]

    def advance(
        self, done: float, figures: Mapping[str, float] | None = None, detail: object = None
    ) -> None:
        """Report a step; the arguments are the fields of :class:`Step`."""
        step = Step(done, figures or {}, detail)
        # The stack calls all of them, last in first out, and then raises what one of them raised.
        with contextlib.ExitStack() as stack:
            for callback in reversed(self.callbacks):
                stack.callback(callback.on_step, self.work, step)


@contextlib.contextmanager
def track(
    title: str,
    total: float | None = None,
    unit: str = "",
    callbacks: Sequence[Callback] = (),
    *,
    earlier: Sequence[Step] = (),
    source: object = None,
) -> Iterator[Progress]:
    """Report the block as work; the arguments are the fields of :class:`Work`.

    As a decorator it reports every call of a function:

    >>> @track("counting")
    ... def count() -> int:
    ...     return 3
    """
    work = Work(title, total, unit, tuple(earlier), source)
    called = (*callbacks, *_enclosing.get(), *progress_bars())
    with contextlib.ExitStack() as stack:
        for callback in called:
            callback.on_begin(work)
            stack.callback(callback.on_end, work)
        yield Progress(work, called)


def track_each(title: str, items: Collection[_T], unit: str = "") -> Iterator[_T]:
    """Iterate over ``items`` and report the loop as work."""
    with track(title, len(items), unit) as progress:
        for number, item in enumerate(items):
            yield item
            progress.advance(number + 1)


_shown = True


def show_progress(shown: bool = True) -> contextlib.AbstractContextManager[object]:
    """Turn progress bars on or off, from the call on or, as a context manager, for a block.

    ``FEDUPLINK_PROGRESS=0`` in the environment turns them off in any case.

    >>> with show_progress(False):
    ...     pass  # no bars here
    """
    global _shown
    restore = contextlib.ExitStack()
    restore.callback(show_progress, _shown)
    _shown = shown
    return restore


class ProgressBars(Callback):
    """A bar of ``tqdm`` for each work in progress; only the outermost one stays when it ends.

    Args:
        delay_s: time after which a bar appears, so that short work shows none, s.
    """

    def __init__(self, delay_s: float = 1.0) -> None:
        self.delay_s = delay_s
        self._bars: dict[Work, tqdm[Any]] = {}

    def on_begin(self, work: Work) -> None:
        """Create the bar."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without ipywidgets gets a text bar
            from tqdm.auto import tqdm

        self._bars[work] = tqdm(
            desc=work.title,
            total=work.total,
            unit=f" {work.unit or 'steps'}",
            initial=work.earlier[-1].done if work.earlier else 0,
            leave=not self._bars,
            delay=self.delay_s,
            dynamic_ncols=True,
            file=sys.stderr,
        )

    def on_step(self, work: Work, step: Step) -> None:
        """Move the bar and show the figures with four digits."""
        bar = self._bars[work]
        if step.figures:
            shown = {
                name: f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
                for name, value in step.figures.items()
            }
            bar.set_postfix(shown, refresh=False)
        bar.update(step.done - bar.n)

    def on_end(self, work: Work) -> None:
        """Close the bar."""
        self._bars.pop(work).close()


_bars = ProgressBars()


def progress_bars() -> tuple[Callback, ...]:
    """Progress bars if they are on and standard error is a terminal or a notebook, else nothing.

    They need the extra ``progress``.
    """
    if not _shown or os.environ.get(VARIABLE) == "0" or find_spec("tqdm") is None:
        return ()
    watched = _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
    return (_bars,) if watched else ()


@contextlib.contextmanager
def status(text: str) -> Iterator[None]:
    """Show a line on the terminal while a block without steps runs, and clear it at the end."""
    shown = bool(progress_bars()) and sys.stderr.isatty()
    if shown:
        print(f"{text} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _in_notebook() -> bool:
    """Whether a Jupyter kernel or Colab runs this; imports nothing to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ in ("ZMQInteractiveShell", "Shell")
