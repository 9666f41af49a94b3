"""``metrics.json``, which makes a directory a finished run: one way to write it, one to read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from feduplink.errors import InputError
from feduplink.files import read_limited, write_json
from feduplink.provenance import provenance

METRICS_FILE = "metrics.json"

#: Of a file: ten runs of a thousand rounds are a hundredth of it.
_MOST_BYTES = 1 << 26

Verdict = Literal["holds", "holds in part", "does not hold", "undecided"]


def write_metrics(directory: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` and where it comes from.

    Two runs with the same seed agree in everything but ``provenance``.
    """
    write_json(directory / METRICS_FILE, {**content, "provenance": provenance()})


def finite_or_none(value: float | None) -> float | None:
    """The number, or None for what JSON does not know: NaN and infinity.

    >>> finite_or_none(0.5), finite_or_none(float("inf"))
    (0.5, None)
    """
    return value if value is not None and math.isfinite(value) else None


class _Entry(BaseModel):
    """Commands write more than is read back here."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Claim(_Entry):
    """Something that was to be shown, and what a run has to say to it.

    Attributes:
        claim: in words.
        measured: what the verdict rests on.
        verdict: whether it holds.
        first_look: the run was too small for a verdict that counts.
    """

    claim: str
    measured: str
    verdict: Verdict
    first_look: bool = False


class Provenance(_Entry):
    """See :mod:`feduplink.provenance`."""

    command: str | None
    started: str | None
    seconds: float | None
    feduplink: str
    python: str
    torch: str
    numpy: str
    system: str
    processors: int | None


class RunMetrics(_Entry):
    """What the metrics of all commands have in common; everything is optional.

    Attributes:
        title: of the run, a few words.
        caption: what it shows, a sentence or two.
        claims: what it was to show.
        data: the data set that it ran on.
        substitution: what stood in for what was asked for, where something did.
        policies: the figures of each, by name.
        figures: by name, which is that of a subdirectory; in the order to be shown.
        scenario, settings, seed: what it was made with.
        runs_s: seconds that its own runs took, now or in another command; not those it found kept,
            which other figures or an interrupted command had made.
        report: says that this is no run but a page made of some.
        provenance: where it comes from; runs of old versions have none.

    """

    title: str | None = None
    caption: str | None = None
    claims: tuple[Claim, ...] = ()
    data: str | None = None
    substitution: str | None = None
    policies: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    scenario: dict[str, Any] | None = None
    settings: dict[str, Any] = {}
    seed: int | None = None
    runs_s: float | None = None
    report: dict[str, Any] | None = None
    provenance: Provenance | None = None


def read_metrics(directory: Path) -> RunMetrics:
    """The metrics of the run in ``directory``; an :class:`InputError` if they are none of ours."""
    path = directory / METRICS_FILE
    try:
        metrics = RunMetrics.model_validate_json(read_limited(path, "metrics", _MOST_BYTES))
    except ValidationError as error:
        problem = error.errors()[0]
        where = "".join(f"{part}: " for part in problem["loc"])
        raise InputError(
            f"{path}: {where}{problem['msg']}; accepted: a whole file as feduplink writes it."
        ) from None
    if metrics.provenance is None and metrics.scenario is None:
        raise InputError(
            f"{path}: has neither provenance nor scenario; accepted: a file that feduplink wrote."
        )
    return metrics
