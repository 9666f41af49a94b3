"""Progress on a terminal or in a notebook, by default; nothing in pipes, files and tests."""

from __future__ import annotations

import html
import os
import sys
import threading
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from feduplink.observing.events import Advance, Observer, Work

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

#: Set to 0, it turns progress off.
VARIABLE = "FEDUPLINK_PROGRESS"
#: Work that ends sooner is not shown, s.
_PATIENCE_S = 1.0
#: Between two updates of a notebook, s.
_UPDATE_S = 0.25
_BAR_WIDTH = 12

_shown = True


class show_progress:
    """Whether work shows its progress where there is somebody to see it.

    That is on a terminal (on standard error) and in a notebook. A call holds from then on; as a
    context manager it holds for the block. The environment variable ``FEDUPLINK_PROGRESS=0`` turns
    progress off, whatever is said here.

    >>> with show_progress(False):
    ...     pass  # quiet here
    """

    def __init__(self, shown: bool = True) -> None:
        global _shown
        self._before, _shown = _shown, shown

    def __enter__(self) -> None:
        """It holds since the call."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _shown
        _shown = self._before


def progress_observers() -> tuple[Observer, ...]:
    """Who shows progress here and now: one observer, or none."""
    if not _shown or os.environ.get(VARIABLE) == "0":
        return ()
    if _in_notebook():
        return (_notebook,)
    if sys.stderr is not None and sys.stderr.isatty():
        return (_terminal,)
    return ()


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this; no library is imported to tell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ in ("ZMQInteractiveShell", "Shell")  # the latter: Colab


@dataclass
class _Line:
    """Where a piece of work stands."""

    work: Work
    step: Advance
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None

    @classmethod
    def from_work(cls, work: Work) -> _Line:
        return cls(work, work.earlier[-1] if work.earlier else Advance(0))

    @property
    def elapsed_s(self) -> float:
        return (self.ended or time.monotonic()) - self.started

    @property
    def shown(self) -> bool:
        return self.elapsed_s >= _PATIENCE_S

    @property
    def count(self) -> str:
        """``12/100 epochs``; ``evaluations 12`` of work of unknown length, nothing at its start."""
        done, total = self.step.done, self.work.total
        if total is None:
            return f"{self.work.unit} {done:.0f}".lstrip() if done else ""
        return f"{min(done, total):.0f}/{total:.0f} {self.work.unit}".rstrip()

    @property
    def figures(self) -> str:
        return ", ".join(f"{name} {_number(value)}" for name, value in self.step.figures.items())

    @property
    def clock(self) -> str:
        """Time so far, and time left at the pace so far."""
        total, before = self.work.total, self.work.earlier
        here = self.step.done - (before[-1].done if before else 0)
        if total is None or here <= 0 or self.ended:
            return _clock(self.elapsed_s)
        left_s = self.elapsed_s * max(total - self.step.done, 0) / here
        return f"{_clock(self.elapsed_s)}, {_clock(left_s)} left"


def _number(value: float) -> str:
    """Four digits, but all of a whole number."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _clock(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Lines(Observer):
    """A line for each piece of work under way; what is inside other work goes when it ends."""

    def __init__(self) -> None:
        self._lines: dict[Work, _Line] = {}
        self._lock = threading.RLock()

    def begin(self, work: Work) -> None:
        """Add a line."""
        with self._lock:
            self._lines[work] = _Line.from_work(work)

    def advance(self, work: Work, step: Advance) -> None:
        """Keep what is to be shown."""
        self._lines[work].step = step

    def end(self, work: Work) -> None:
        """Take the line away."""
        with self._lock:
            line = self._lines.pop(work)
            line.ended = time.monotonic()
            if not self._lines:
                self._close(line)

    def _shown(self) -> list[_Line]:
        # Without the lock: rich asks from a thread that others wait for while they hold it.
        return [line for line in list(self._lines.values()) if line.shown]

    @abstractmethod
    def _close(self, last: _Line) -> None:
        """All work has ended; its last line stays to be seen, unless the work is transient."""


class TerminalProgress(_Lines):
    """Lines at the end of the terminal, drawn by rich a few times per second."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self._console = console
        self._stream = sys.stderr
        self._live: Live | None = None
        self._timer: threading.Timer | None = None

    def begin(self, work: Work) -> None:
        """Show the lines once the first of them has taken its time."""
        super().begin(work)
        with self._lock:
            if self._timer is None:
                # Where it is now: the work may catch what is written there meanwhile.
                self._stream = sys.stderr
                self._timer = threading.Timer(_PATIENCE_S, self._open)
                self._timer.daemon = True
                self._timer.start()

    def _open(self) -> None:
        from rich.console import Console
        from rich.live import Live

        with self._lock:
            if self._timer is not threading.current_thread():  # its work has ended just now
                return
            self._live = Live(
                console=self._console
                or Console(file=self._stream, highlight=False, markup=False, emoji=False),
                get_renderable=lambda: _table(self._shown()),
                transient=True,
                # What is printed meanwhile appears above the lines, unless it goes elsewhere.
                redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
            )
            self._live.start()

    def _close(self, last: _Line) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._timer = None
        if self._live is None:
            return
        self._live.stop()
        if last.shown and not last.work.transient:
            self._live.console.print(_table([last]))
        self._live = None


def _table(lines: list[_Line]) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(width=_BAR_WIDTH)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()  # the only one that gives way on a narrow terminal
    for line in lines:
        total = line.work.total
        if line.ended and total is None:
            bar = ProgressBar(1, 1)
        else:
            bar = ProgressBar(total or 1, line.step.done, pulse=total is None)
        title, count, clock = map(Text, (line.work.title, line.count, line.clock))
        figures = Text(line.figures, no_wrap=True, overflow="ellipsis")
        table.add_row(title, bar, count, clock, figures)
    return table


class NotebookProgress(_Lines):
    """The same lines in the output of a notebook's cell.

    Needs nothing but IPython: rich would need the package ipywidgets, and leaves its bar where it
    was before the last steps.
    """

    def __init__(self) -> None:
        super().__init__()
        self._display: Any = None
        self._updated = 0.0

    def begin(self, work: Work) -> None:
        """Show what has taken its time."""
        super().begin(work)
        self._update()

    def advance(self, work: Work, step: Advance) -> None:
        """Show what has taken its time, unless that was done just now."""
        super().advance(work, step)
        if time.monotonic() - self._updated >= _UPDATE_S:
            self._update()

    def _close(self, last: _Line) -> None:
        if self._display is not None:
            self._show([] if last.work.transient else [last])
            self._display = None

    def _update(self) -> None:
        if lines := self._shown():
            self._show(lines)

    def _show(self, lines: list[_Line]) -> None:
        from IPython.display import display

        content = {"text/html": _html(lines)}
        if self._display is None:
            self._display = display(content, raw=True, display_id=True)
        else:
            self._display.update(content, raw=True)
        self._updated = time.monotonic()


def _html(lines: list[_Line]) -> str:
    rows = []
    for line in lines:
        total = line.work.total
        value = "" if total is None else f' value="{line.step.done:g}" max="{total:g}"'
        texts = (line.work.title, f"<progress{value}></progress>", line.count, line.clock)
        first, bar, *others = texts
        cells = [html.escape(first), bar, *map(html.escape, (*others, line.figures))]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table>{''.join(rows)}</table>"


_terminal, _notebook = TerminalProgress(), NotebookProgress()
