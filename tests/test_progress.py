from __future__ import annotations

import io
import subprocess
import sys

import pytest

from feduplink.progress import (
    VARIABLE,
    Callback,
    ProgressBars,
    Step,
    Work,
    progress_bars,
    report_to,
    show_progress,
    status,
    track,
    track_each,
)
from recorder import Recorder


class Failing(Callback):
    """Fails at one of the three calls."""

    def __init__(self, at: str) -> None:
        self.at = at

    def on_begin(self, work: Work) -> None:
        self._fail("begin")

    def on_step(self, work: Work, step: Step) -> None:
        self._fail("advance")

    def on_end(self, work: Work) -> None:
        self._fail("end")

    def _fail(self, where: str) -> None:
        if where == self.at:
            raise RuntimeError(where)


def test_work_begins_advances_and_ends():
    recorder = Recorder()
    with track("counting", 2, "numbers", [recorder], earlier=[Step(1)]) as progress:
        progress.advance(2, {"sum": 3.0}, "detail")
    assert recorder.calls == [("counting", "begin"), ("counting", 2), ("counting", "end")]
    (work,) = recorder.works
    assert (work.title, work.total, work.unit) == ("counting", 2, "numbers")
    assert work.earlier == (Step(1),)
    assert recorder.steps == [Step(2, {"sum": 3.0}, "detail")]


def test_a_block_is_observed_with_all_that_is_inside_and_nothing_else():
    recorder = Recorder()
    with track("before"):
        pass
    with report_to(recorder), track("outer"), track("inner"):
        pass
    with track("after"):
        pass
    assert recorder.calls == [
        ("outer", "begin"),
        ("inner", "begin"),
        ("inner", "end"),
        ("outer", "end"),
    ]


def test_work_that_fails_ends_too():
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError), track("dividing", callbacks=[recorder]):
        _ = 1 / 0
    assert recorder.of("dividing") == ["begin", "end"]


def test_every_call_of_a_decorated_function_is_work():
    @track("doubling")
    def double(number: int) -> int:
        return 2 * number

    recorder = Recorder()
    with report_to(recorder):
        assert [double(1), double(2)] == [2, 4]
    assert recorder.of("doubling") == ["begin", "end"] * 2


def test_a_loop_is_work():
    recorder = Recorder()
    with report_to(recorder):
        assert list(track_each("items", "abc", "letters")) == ["a", "b", "c"]
    assert recorder.of("items") == ["begin", 1, 2, 3, "end"]
    assert recorder.works[0].total == 3


def test_a_loop_that_is_left_ends():
    recorder = Recorder()
    with report_to(recorder):
        for item in track_each("items", "abc"):
            if item == "b":
                break
    assert recorder.of("items") == ["begin", 1, "end"]


@pytest.mark.parametrize("at", ["begin", "advance", "end"])
def test_an_exception_of_a_callback_is_raised_after_the_others_were_called(at: str):
    before, after = Recorder(), Recorder()
    callbacks = [before, Failing(at), after]
    with pytest.raises(RuntimeError, match=at), track("work", callbacks=callbacks) as progress:
        progress.advance(1)
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
    assert progress_bars() == ()


def test_a_terminal_shows_progress_unless_it_is_turned_off(
    monkeypatch: pytest.MonkeyPatch,
):
    on_a_terminal(monkeypatch)
    (shown,) = progress_bars()
    assert isinstance(shown, ProgressBars)
    with show_progress(False):
        assert progress_bars() == ()
        with show_progress(True):
            assert progress_bars() == (shown,)
        assert progress_bars() == ()
    assert progress_bars() == (shown,)
    monkeypatch.setenv(VARIABLE, "0")
    assert progress_bars() == ()


def test_a_call_turns_progress_off_until_another_one(monkeypatch: pytest.MonkeyPatch):
    on_a_terminal(monkeypatch)
    try:
        show_progress(False)
        assert progress_bars() == ()
    finally:
        show_progress(True)
    assert progress_bars() != ()


def test_a_bar_shows_title_count_and_figures(monkeypatch: pytest.MonkeyPatch):
    terminal = on_a_terminal(monkeypatch)
    bars = ProgressBars(delay_s=0)
    work = Work("training of pdg", 10, "epochs", (Step(3),))
    bars.on_begin(work)
    bars.on_step(work, Step(10, {"objective": 0.94321, "boxes": 12345}))
    bars.on_end(work)
    last = terminal.getvalue().split("\r")[-1]
    for text in ("training of pdg", "10/10", "epochs", "objective=0.9432", "boxes=12,345"):
        assert text in last


def test_only_the_outermost_bar_stays(monkeypatch: pytest.MonkeyPatch):
    terminal = on_a_terminal(monkeypatch)
    bars = ProgressBars(delay_s=0)
    outer, inner = Work("outer", 2), Work("inner", 2)
    bars.on_begin(outer)
    bars.on_begin(inner)
    bars.on_step(inner, Step(2))
    bars.on_end(inner)
    bars.on_step(outer, Step(2))
    bars.on_end(outer)
    last = terminal.getvalue().rstrip("\n").split("\r")[-1]
    assert "outer" in last
    assert "inner" not in last


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch):
    terminal = on_a_terminal(monkeypatch)
    bars = ProgressBars(delay_s=3600)
    work = Work("short", 1)
    bars.on_begin(work)
    bars.on_step(work, Step(1))
    bars.on_end(work)
    assert terminal.getvalue() == ""


def test_a_notebook_shows_progress(monkeypatch: pytest.MonkeyPatch):
    """In a Jupyter kernel standard error is not a terminal."""
    kernel = type("ZMQInteractiveShell", (), {})
    ipython = type(sys)("IPython")
    ipython.get_ipython = kernel
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert len(progress_bars()) == 1


def test_importing_progress_does_not_import_a_bar():
    code = "import sys, feduplink.progress; sys.exit('tqdm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_status_is_shown_while_its_block_runs(monkeypatch: pytest.MonkeyPatch):
    terminal = on_a_terminal(monkeypatch)
    with status("loading"):
        assert terminal.getvalue() == "loading ..."
    assert terminal.getvalue().endswith("\r\033[K")


def test_a_status_is_not_shown_in_pipes_and_without_progress(monkeypatch: pytest.MonkeyPatch):
    terminal = on_a_terminal(monkeypatch)
    with show_progress(False), status("loading"):
        pass
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with status("loading"):
        pass
    assert terminal.getvalue() == pipe.getvalue() == ""
