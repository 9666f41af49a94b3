from __future__ import annotations

from feduplink.progress import Advance, Observer, Work


class Recorder(Observer):
    """Keeps what it is told, as (title, what happened)."""

    def __init__(self) -> None:
        self.works: list[Work] = []
        self.steps: list[Advance] = []
        self.told: list[tuple[str, str | float]] = []

    def begin(self, work: Work) -> None:
        self.works.append(work)
        self.told.append((work.title, "begin"))

    def advance(self, work: Work, step: Advance) -> None:
        self.steps.append(step)
        self.told.append((work.title, step.done))

    def end(self, work: Work) -> None:
        self.told.append((work.title, "end"))

    def of(self, title: str) -> list[str | float]:
        """What happened to the work of this title."""
        return [what for told, what in self.told if told == title]


class Stop(Exception):
    """Raised by :class:`StopAt`."""


class StopAt(Observer):
    """Interrupts work after a step."""

    def __init__(self, done: float, unit: str) -> None:
        self.done, self.unit = done, unit

    def advance(self, work: Work, step: Advance) -> None:
        if work.unit == self.unit and step.done == self.done:
            raise Stop
