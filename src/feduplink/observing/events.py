"""What an observer is told: that work begins, how far it is, that it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Advance:
    """How far work is.

    Attributes:
        done: of the work's ``total``, in its unit.
        figures: what it has reached, by name.
        detail: all there is to know of this step, in a type of its own: an
            :class:`~feduplink.learning.Epoch`, a :class:`~feduplink.federated.FinishedRound`, a
            :class:`~feduplink.optimum.DualStep`, a :class:`~feduplink.optimum.Certificate`.
    """

    done: float
    figures: Mapping[str, float] = field(default_factory=dict)
    detail: object = None


@dataclass(frozen=True, eq=False)
class Work:
    """Something that takes long. Each is one of a kind, also where two have the same title.

    Attributes:
        title: what is being done.
        total: how much there is to do, at most; None if nobody knows.
        unit: what is counted, in the plural: ``epochs``.
        earlier: the steps that were done before, by the run that this one resumes.
        transient: whether nothing of it needs to be seen once it has ended.
    """

    title: str
    total: float | None = None
    unit: str = ""
    earlier: Sequence[Advance] = ()
    transient: bool = False


class Observer(Protocol):
    """Told of work that it was given to, and of all work inside the block it was given to.

    A class derived from this one needs to define only what it wants to hear:

    >>> class Printer(Observer):
    ...     def advance(self, work: Work, step: Advance) -> None:
    ...         print(f"{work.title}: {step.done:g} of {work.total:g} {work.unit}")

    What an observer raises ends the work, after all other observers were told.
    """

    def begin(self, work: Work) -> None:
        """Before the first step."""

    def advance(self, work: Work, step: Advance) -> None:
        """After every step."""

    def end(self, work: Work) -> None:
        """After the last step, also when the work failed."""
