"""Progress callbacks and progress bars.

Long-running work reports its beginning, every step and its end to three groups of callbacks: those
passed to it, those of the enclosing :func:`report_to` blocks, and progress bars. Bars are shown on
a terminal (standard error) and in notebooks only.
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

#: Environment variable that disables progress bars if set to 0.
VARIABLE = "FEDUPLINK_PROGRESS"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Step:
    """One step of a :class:`Work`.

    Attributes:
        done: amount of work done so far, in ``Work.unit``, at most ``Work.total``.
        figures: quantities to display and to track, by name.
        detail: full record of the step, whose type depends on the work: an
            :class:`~feduplink.training.Epoch`, a :class:`~feduplink.federated.FinishedRound`, a
            :class:`~feduplink.optimum.DualStep` or a :class:`~feduplink.optimum.Certificate`.
    """

    done: float
    figures: Mapping[str, float] = field(default_factory=dict)
    detail: object = None


@dataclass(frozen=True, eq=False)
class Work:
    """A task that reports its progress; compared by identity.

    Attributes:
        title: name of the task, for display.
        total: maximum amount of work; None if unknown.
        unit: unit of ``Step.done``, in the plural, such as ``epochs``.
        earlier: steps of the interrupted run that this one resumes.
        source: object that performs the task, such as a :class:`~feduplink.training.Trainer`.
    """

    title: str
    total: float | None = None
    unit: str = ""
    earlier: Sequence[Step] = ()
    source: object = None


class Callback:
    """Base class of callbacks of long-running work; subclasses override the methods they need.

    An exception raised by a callback ends the work, after all other callbacks have been called.

    >>> class Printer(Callback):
    ...     def on_step(self, work: Work, step: Step) -> None:
    ...         print(f"{work.title}: {step.done:g} of {work.total:g} {work.unit}")
    >>> with track("training", 2, "epochs", [Printer()]) as progress:
    ...     progress.advance(1)
    training: 1 of 2 epochs
    """

    def on_begin(self, work: Work) -> None:
        """Called before the first step.

        Args:
            work: the task that begins.
        """

    def on_step(self, work: Work, step: Step) -> None:
        """Called after every step.

        Args:
            work: the task.
            step: the step that has just been completed.
        """

    def on_end(self, work: Work) -> None:
        """Called after the last step, also if the work failed.

        Args:
            work: the task that has ended.
        """


_enclosing: ContextVar[tuple[Callback, ...]] = ContextVar("feduplink-callbacks", default=())


@contextlib.contextmanager
def report_to(*callbacks: Callback) -> Iterator[None]:
    """Report all work within a block to further callbacks.

    Args:
        callbacks: callbacks to add to those of each task.

    >>> import feduplink as fu
    >>> class Titles(fu.Callback):
    ...     def on_begin(self, work):
    ...         print(work.title)
    >>> scenario = fu.Scenario(workers=2)
    >>> with fu.report_to(Titles()):
    ...     result = fu.evaluate(scenario, ["max"], channels_per_split=10)
    comparison
    """
    token = _enclosing.set((*_enclosing.get(), *callbacks))
    try:
        yield
    finally:
        _enclosing.reset(token)


@dataclass(frozen=True)
class Progress:
    """A task in progress, as :func:`track` yields it.

    Attributes:
        work: the task.
        callbacks: callbacks that every step is reported to.
    """

    work: Work
    callbacks: Sequence[Callback]

    def advance(
        self, done: float, figures: Mapping[str, float] | None = None, detail: object = None
    ) -> None:
        """Report a step; the arguments are the attributes of :class:`Step`."""
        step = Step(done, figures or {}, detail)
        # The stack calls all callbacks, last in first out, before it raises an exception of one.
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
    """Report a block, or every call of a decorated function, as a :class:`Work`.

    Args:
        title: name of the task, for display.
        total: maximum amount of work; None if unknown.
        unit: unit of the work, in the plural.
        callbacks: callbacks beside those of :func:`report_to` blocks and the progress bars.
        earlier: steps of the interrupted run that this one resumes.
        source: object that performs the task.

    Yields:
        A :class:`Progress`, whose ``advance`` reports a step.

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
    """Iterate over a collection and report the loop as a :class:`Work`.

    Args:
        title: name of the loop, for display.
        items: items to iterate over.
        unit: what the items are, in the plural.

    Yields:
        The items; a step is reported after each of them.
    """
    with track(title, len(items), unit) as progress:
        for number, item in enumerate(items):
            yield item
            progress.advance(number + 1)


_shown = True


def show_progress(shown: bool = True) -> contextlib.AbstractContextManager[object]:
    """Enable or disable progress bars, permanently or within a ``with`` block.

    ``FEDUPLINK_PROGRESS=0`` in the environment disables them regardless.

    Args:
        shown: whether to show progress bars.

    Returns:
        A context manager that restores the previous state on exit.

    >>> import feduplink as fu
    >>> with fu.show_progress(False):
    ...     result = fu.evaluate(fu.Scenario(workers=2), ["max"], channels_per_split=10)
    """
    global _shown
    restore = contextlib.ExitStack()
    restore.callback(show_progress, _shown)
    _shown = shown
    return restore


class ProgressBars(Callback):
    """A ``tqdm`` progress bar per task in progress; only the outermost bar remains after its end.

    Args:
        delay_s: delay before a bar appears, s; shorter tasks show none.
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
    """The shared :class:`ProgressBars`, or no callback if bars are disabled or cannot be shown.

    Bars need the extra ``progress``, and a terminal on standard error or a notebook.

    Returns:
        A tuple of one callback or none.
    """
    if not _shown or os.environ.get(VARIABLE) == "0" or find_spec("tqdm") is None:
        return ()
    watched = _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
    return (_bars,) if watched else ()


@contextlib.contextmanager
def status(text: str) -> Iterator[None]:
    """Show a line on the terminal during a block that reports no steps, and clear it afterwards.

    Args:
        text: description of the block.
    """
    shown = bool(progress_bars()) and sys.stderr.isatty()
    if shown:
        print(f"{text} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _in_notebook() -> bool:
    """Whether the code runs in a Jupyter kernel or in Colab; does not import IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ in ("ZMQInteractiveShell", "Shell")
