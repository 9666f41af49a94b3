from __future__ import annotations

from feduplink.progress import Callback, Step, Work


class Recorder(Callback):
    """Records every call as (title, what happened)."""

    def __init__(self) -> None:
        self.works: list[Work] = []
        self.steps: list[Step] = []
        self.calls: list[tuple[str, str | float]] = []

    def on_begin(self, work: Work) -> None:
        self.works.append(work)
        self.calls.append((work.title, "begin"))

    def on_step(self, work: Work, step: Step) -> None:
        self.steps.append(step)
        self.calls.append((work.title, step.done))

    def on_end(self, work: Work) -> None:
        self.calls.append((work.title, "end"))

    def of(self, title: str) -> list[str | float]:
        """What happened to the work of this title."""
        return [what for calls, what in self.calls if calls == title]


class Stop(Exception):
    """Raised by :class:`StopAt`."""


class StopAt(Callback):
    """Interrupts work after a step."""

    def __init__(self, done: float, unit: str) -> None:
        self.done, self.unit = done, unit

    def on_step(self, work: Work, step: Step) -> None:
        if work.unit == self.unit and step.done == self.done:
            raise Stop
