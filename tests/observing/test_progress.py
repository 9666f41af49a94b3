from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable

import pytest
from rich.console import Console

from feduplink.observing import progress, show_progress, track
from feduplink.observing.events import Advance, Work
from feduplink.observing.progress import NotebookProgress, TerminalProgress, progress_observers


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short work is shown too."""
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.0)


def _on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Called by the test itself: pytest captures its output anew after the fixtures."""
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    monkeypatch.setattr(sys, "stderr", _Terminal())


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As in a Jupyter kernel; what the cell shows, each update after the other."""
    shown: list[str] = []

    class ZMQInteractiveShell:
        pass

    class Handle:
        def update(self, content: dict[str, str], raw: bool) -> None:
            shown.append(content["text/html"])

    def display(content: dict[str, str], raw: bool, display_id: bool) -> Handle:
        shown.append(content["text/html"])
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell
    ipython_display = types.ModuleType("IPython.display")
    ipython_display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython_display)
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    return shown


def test_nobody_watches_in_a_pipe(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert progress_observers() == ()


def test_a_terminal_shows_progress_unless_it_is_turned_off(monkeypatch: pytest.MonkeyPatch):
    _on_a_terminal(monkeypatch)
    (shown,) = progress_observers()
    assert isinstance(shown, TerminalProgress)
    with show_progress(False):
        assert progress_observers() == ()
        with show_progress(True):
            assert progress_observers() == (shown,)
        assert progress_observers() == ()
    assert progress_observers() == (shown,)
    monkeypatch.setenv(progress.VARIABLE, "0")
    assert progress_observers() == ()


def test_a_call_turns_it_off_for_good(monkeypatch: pytest.MonkeyPatch):
    _on_a_terminal(monkeypatch)
    try:
        show_progress(False)
        assert progress_observers() == ()
    finally:
        show_progress(True)
    assert progress_observers() != ()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("width", [70, 160])
def test_a_terminal_shows_title_count_and_figures(width: int):
    console = Console(file=_Terminal(), force_terminal=True, width=width)
    shown = TerminalProgress(console)
    work = Work("training of pdg", 10, "epochs", (Advance(3),))
    shown.begin(work)
    shown.advance(work, Advance(10, {"objective": 0.94321, "boxes": 12345}))
    _opened(shown)
    shown.end(work)
    last = console.file.getvalue().splitlines()[-1]
    assert "training of pdg" in last
    assert "10/10 epochs" in last
    assert "objective 0.9432" in last
    assert ("boxes 12,345" in last) == (width > 70)


def _opened(shown: TerminalProgress) -> None:
    """Wait for the thread that opens the display."""
    assert shown._timer is not None
    shown._timer.join(5)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("transient", [False, True])
def test_only_transient_work_leaves_no_line(transient: bool):
    terminal = _Terminal()
    shown = TerminalProgress(Console(file=terminal, force_terminal=True, width=70))
    work = Work("loading PyTorch", transient=transient)
    shown.begin(work)
    _opened(shown)
    shown.end(work)
    left = terminal.getvalue().rpartition("\x1b[2K")[2]  # after what was erased
    assert ("loading PyTorch" in left) == (not transient)


@pytest.mark.usefixtures("at_once")
def test_work_that_catches_what_is_written_is_shown_all_the_same(monkeypatch: pytest.MonkeyPatch):
    _on_a_terminal(monkeypatch)
    terminal, caught = sys.stderr, io.StringIO()
    shown = TerminalProgress()
    work = Work("runs of the sweep")
    shown.begin(work)
    with contextlib.redirect_stderr(caught):
        _opened(shown)
        shown.end(work)
    assert "runs of the sweep" in terminal.getvalue()
    assert caught.getvalue() == ""


def test_short_work_leaves_no_trace():
    console = Console(file=_Terminal(), force_terminal=True)
    shown = TerminalProgress(console)
    work = Work("evaluation")
    shown.begin(work)
    shown.end(work)
    assert console.file.getvalue() == ""


def test_work_that_ends_while_its_line_is_opened_leaves_no_display(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.002)
    console = Console(file=_Terminal(), force_terminal=True)
    shown = TerminalProgress(console)
    for number in range(60):
        work = Work("short")
        shown.begin(work)
        time.sleep(0.0001 * number)
        shown.end(work)
    assert shown._live is None
    assert _soon(lambda: not any("Refresh" in type(t).__name__ for t in threading.enumerate()))


def _soon(holds: Callable[[], bool]) -> bool:
    """Whether it holds within some seconds."""
    deadline = time.monotonic() + 5
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


@pytest.mark.usefixtures("at_once")
def test_a_notebook_shows_lines_of_all_work_under_way(notebook: list[str]):
    (shown,) = progress_observers()
    assert isinstance(shown, NotebookProgress)
    with track("<outer>", 2, "parts") as outer, track("inner") as inner:
        inner.advance(5, {"gap": 0.25})
        outer.advance(1)
    assert "&lt;outer&gt;" in notebook[0]
    assert any("inner" in text and "&lt;outer&gt;" in text for text in notebook)
    assert "1/2 parts" in notebook[-1]  # the last state stays
    assert "inner" not in notebook[-1]


def test_short_work_is_not_shown_in_a_notebook(notebook: list[str]):
    with track("evaluation"):
        pass
    assert notebook == []


def test_time_left_is_at_the_pace_of_this_run():
    line = progress._Line.from_work(Work("training", 100, "epochs", (Advance(50),)))
    line.started -= 60
    line.step = Advance(75)  # 25 in a minute
    assert line.clock == "1:00, 1:00 left"
    line.step = Advance(50)
    assert line.clock == "1:00"  # nothing done yet
    assert progress._clock(3723) == "1:02:03"


QUIET_RUN = """
import sys
import torch
from feduplink import GraphPolicy, Scenario, Training, TrainingData, TrainingSettings, draw_csi
from feduplink.observing import progress

progress._PATIENCE_S = 0.0
csi = draw_csi(Scenario(workers=3), 20, torch.Generator().manual_seed(0))
policy = GraphPolicy.initialised(Scenario(workers=3))
Training(policy, TrainingData(csi, csi), TrainingSettings(epochs=2)).run()
assert "rich" not in sys.modules
"""


def test_a_run_prints_nothing_in_a_pipe():
    done = subprocess.run([sys.executable, "-c", QUIET_RUN], capture_output=True, check=True)
    assert done.stdout == done.stderr == b""


CORE_IMPORT = """
import sys
import feduplink
found = {"rich", "matplotlib", "scipy", "IPython"} & {n.partition(".")[0] for n in sys.modules}
assert not found, found
"""


def test_the_core_imports_no_terminal_no_plots_and_no_scipy():
    subprocess.run([sys.executable, "-c", CORE_IMPORT], check=True)
