"""Finished runs as one HTML page that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from feduplink.files import write_text
from feduplink.progress import track
from feduplink.registry import ACCESS_SCHEMES, POLICIES
from feduplink.report.html_figures import HtmlFigure, read_figures
from feduplink.report.html_tables import CsvTable, read_csv_tables, read_markdown
from feduplink.report.runs import FinishedRun

PAGE_FILE = "report.html"

#: More sections than these get a table of contents.
_FEW_SECTIONS = 3

#: Never by colour alone.
_VERDICT_SIGNS = {"holds": "✓", "holds in part": "◐", "does not hold": "✗", "undecided": "?"}


@dataclass(frozen=True)
class Section:
    """All that the page shows of one run, read and ready."""

    anchor: str
    run: FinishedRun
    figures: list[HtmlFigure]
    tables: list[Markup]
    csv_tables: list[CsvTable]

    def as_metrics(self) -> dict[str, Any]:
        """Its entry in the ``metrics.json`` of the report."""
        return {
            "title": self.run.title,
            "directory": str(self.run.directory),
            "figures": [figure.name for figure in self.figures],
        }


def read_sections(runs: Sequence[FinishedRun]) -> list[Section]:
    """Read the figures and tables of the runs; an ``InputError`` names a file that is damaged."""
    return [
        Section(
            anchor=f"run-{number}",
            run=run,
            figures=read_figures(run.directory, prefix=f"run-{number}"),
            tables=read_markdown(run.directory),
            csv_tables=read_csv_tables(run.directory),
        )
        for number, run in enumerate(runs, 1)
    ]


@track("making the page", transient=True)
def write_page(directory: Path, sections: Sequence[Section]) -> Path:
    """Write the page into ``directory``; returns its path."""
    path = directory / PAGE_FILE
    write_text(path, render_page(sections))
    return path


def render_page(sections: Sequence[Section]) -> str:
    """The page: all claims, the contents if there are many sections, and the sections."""
    environment = Environment(
        loader=PackageLoader("feduplink", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": _duration, "setting": _setting}
    return environment.get_template("page.html").render(
        sections=sections,
        figure_count=sum(len(section.figures) for section in sections),
        claims=[(claim, section) for section in sections for claim in section.run.metrics.claims],
        policies=_summaries(sections),
        contents=len(sections) > _FEW_SECTIONS,
        signs=_VERDICT_SIGNS,
    )


def _summaries(sections: Sequence[Section]) -> dict[str, str]:
    """What the policies of all runs do, as far as their classes are known and say so."""
    names = dict.fromkeys(name for section in sections for name in section.run.metrics.policies)
    found = {}
    for name in names:
        for registry in (POLICIES, ACCESS_SCHEMES):
            if name in registry.names() and (
                summary := getattr(registry.find(name), "summary", "")
            ):
                found[name] = str(summary)
    return found


def _duration(seconds: float) -> str:
    """In words, as exact as anybody asks for.

    >>> _duration(7.31), _duration(83), _duration(7500)
    ('7.31 s', '1 min 23 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _setting(value: object) -> str:
    """The value of a setting as it is typed on the command line."""
    if isinstance(value, list | tuple):
        return ", ".join(map(_setting, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
