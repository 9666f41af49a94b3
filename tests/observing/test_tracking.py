from __future__ import annotations

import pytest

from feduplink.observing import Advance, Observer, Work, observed_by, track, track_each

from .recorder import Recorder


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
