from __future__ import annotations

import io
import subprocess
import sys

import pytest

from feduplink.progress import (
    VARIABLE,
    Advance,
    Observer,
    ProgressBars,
    Work,
    observed_by,
    progress_observers,
    show_progress,
    track,
    track_each,
)
from recorder import Recorder


class Failing(Observer):
    """Fails at one of the three calls."""

    def __init__(self, at: str) -> None:
        self.at = at

    def begin(self, work: Work) -> None:
        self._fail("begin")

    def advance(self, work: Work, step: Advance) -> None:
        self._fail("advance")

    def end(self, work: Work) -> None:
        self._fail("end")

    def _fail(self, where: str) -> None:
        if where == self.at:
            raise RuntimeError(where)


def test_work_begins_advances_and_ends():
    recorder = Recorder()
    with track("counting", 2, "numbers", [recorder], earlier=[Advance(1)]) as tracker:
        tracker.advance(2, {"sum": 3.0}, "detail")
    assert recorder.told == [("counting", "begin"), ("counting", 2), ("counting", "end")]
    (work,) = recorder.works
    assert (work.title, work.total, work.unit) == ("counting", 2, "numbers")
    assert work.earlier == (Advance(1),)
    assert recorder.steps == [Advance(2, {"sum": 3.0}, "detail")]


def test_a_block_is_observed_with_all_that_is_inside_and_nothing_else():
    recorder = Recorder()
    with track("before"):
        pass
    with observed_by(recorder), track("outer"), track("inner"):
        pass
    with track("after"):
        pass
    assert recorder.told == [
        ("outer", "begin"),
        ("inner", "begin"),
        ("inner", "end"),
        ("outer", "end"),
    ]


def test_work_that_fails_ends_too():
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError), track("dividing", observers=[recorder]):
        _ = 1 / 0
    assert recorder.of("dividing") == ["begin", "end"]


def test_every_call_of_a_decorated_function_is_work():
    @track("doubling")
    def double(number: int) -> int:
        return 2 * number

    recorder = Recorder()
    with observed_by(recorder):
        assert [double(1), double(2)] == [2, 4]
    assert recorder.of("doubling") == ["begin", "end"] * 2


def test_a_loop_is_work():
    recorder = Recorder()
    with observed_by(recorder):
        assert list(track_each("items", "abc", "letters")) == ["a", "b", "c"]
    assert recorder.of("items") == ["begin", 1, 2, 3, "end"]
    assert recorder.works[0].total == 3


def test_a_loop_that_is_left_ends():
    recorder = Recorder()
    with observed_by(recorder):
        for item in track_each("items", "abc"):
            if item == "b":
                break
    assert recorder.of("items") == ["begin", 1, "end"]


@pytest.mark.parametrize("at", ["begin", "advance", "end"])
def test_what_an_observer_raises_comes_out_after_the_others_were_told(at: str):
    before, after = Recorder(), Recorder()
    observers = [before, Failing(at), after]
    with pytest.raises(RuntimeError, match=at), track("work", observers=observers) as tracker:
        tracker.advance(1)
    begun = at != "begin"
    assert before.of("work") == (["begin", 1, "end"] if begun else ["begin", "end"])
    assert after.of("work") == (["begin", 1, "end"] if begun else [])


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called by the test itself: pytest captures its output anew after the fixtures."""
    monkeypatch.delenv(VARIABLE, raising=False)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_a_pipe_shows_no_progress(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert progress_observers() == ()


def test_a_terminal_shows_progress_unless_it_is_turned_off(
    monkeypatch: pytest.MonkeyPatch,
):
    on_a_terminal(monkeypatch)
    (shown,) = progress_observers()
    assert isinstance(shown, ProgressBars)
    with show_progress(False):
        assert progress_observers() == ()
        with show_progress(True):
            assert progress_observers() == (shown,)
        assert progress_observers() == ()
    assert progress_observers() == (shown,)
    monkeypatch.setenv(VARIABLE, "0")
    assert progress_observers() == ()


def test_a_call_turns_progress_off_until_another_one(monkeypatch: pytest.MonkeyPatch):
    on_a_terminal(monkeypatch)
    try:
        show_progress(False)
        assert progress_observers() == ()
    finally:
        show_progress(True)
    assert progress_observers() != ()


def test_a_bar_shows_title_count_and_figures(monkeypatch: pytest.MonkeyPatch):
    terminal = on_a_terminal(monkeypatch)
    bars = ProgressBars(delay_s=0)
    work = Work("training of pdg", 10, "epochs", (Advance(3),))
    bars.begin(work)
    bars.advance(work, Advance(10, {"objective": 0.94321, "boxes": 12345}))
    bars.end(work)
    last = terminal.getvalue().split("\r")[-1]
    for text in ("training of pdg", "10/10", "epochs", "objective=0.9432", "boxes=12,345"):
        assert text in last


@pytest.mark.parametrize("transient", [False, True])
def test_a_transient_bar_is_cleared(monkeypatch: pytest.MonkeyPatch, transient: bool):
    terminal = on_a_terminal(monkeypatch)
    bars = ProgressBars(delay_s=0)
    work = Work("loading", 1, transient=transient)
    bars.begin(work)
    bars.advance(work, Advance(1))
    bars.end(work)
    last = terminal.getvalue().rstrip("\n").split("\r")[-1]
    assert ("loading" in last) == (not transient)


def test_only_the_outermost_bar_stays(monkeypatch: pytest.MonkeyPatch):
    terminal = on_a_terminal(monkeypatch)
    bars = ProgressBars(delay_s=0)
    outer, inner = Work("outer", 2), Work("inner", 2)
    bars.begin(outer)
    bars.begin(inner)
    bars.advance(inner, Advance(2))
    bars.end(inner)
    bars.advance(outer, Advance(2))
    bars.end(outer)
    last = terminal.getvalue().rstrip("\n").split("\r")[-1]
    assert "outer" in last
    assert "inner" not in last


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch):
    terminal = on_a_terminal(monkeypatch)
    bars = ProgressBars(delay_s=3600)
    work = Work("short", 1)
    bars.begin(work)
    bars.advance(work, Advance(1))
    bars.end(work)
    assert terminal.getvalue() == ""


def test_a_notebook_shows_progress(monkeypatch: pytest.MonkeyPatch):
    """In a Jupyter kernel standard error is not a terminal."""
    kernel = type("ZMQInteractiveShell", (), {})
    ipython = type(sys)("IPython")
    ipython.get_ipython = kernel
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert len(progress_observers()) == 1


def test_importing_progress_does_not_import_a_bar():
    code = "import sys, feduplink.progress; sys.exit('tqdm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
