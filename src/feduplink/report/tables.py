"""The comparison of policies as a table: on the terminal and in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from feduplink.problem import Judgement
from feduplink.scenario import Scenario

_UNITS = "min rate (nats/s/Hz) and min EE (nats/s/Hz/W): the worst worker's mean while it transmits"


def comparison_table(judgements: Mapping[str, Judgement], scenario: Scenario) -> Table:
    """A row a policy, all figures that must be shown together."""
    table = Table(
        title=_title(scenario),
        title_justify="left",
        title_style="bold",
        caption=_UNITS,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    policy, *figures = _columns(scenario)
    table.add_column(policy, overflow="fold")
    for column in figures:
        table.add_column(column, justify="right", no_wrap=True)
    for name, judgement in judgements.items():
        *cells, verdict = _row(name, judgement)
        colour = "green" if judgement.feasible else "red"
        table.add_row(*cells, Text(verdict, style=colour))
    return table


def comparison_markdown(judgements: Mapping[str, Judgement], scenario: Scenario) -> str:
    """The same table in Markdown."""
    columns = [column.replace("-\n", "").replace("\n", " ") for column in _columns(scenario)]
    lines = [_title(scenario), "", _markdown_row(columns)]
    lines.append(_markdown_row(["---", *["---:"] * (len(columns) - 1)]))
    lines += [_markdown_row(_row(name, judgement)) for name, judgement in judgements.items()]
    return "\n".join([*lines, "", f"{_UNITS[0].upper()}{_UNITS[1:]}."]) + "\n"


def _title(scenario: Scenario) -> str:
    return (
        f"{scenario.workers} workers, Pmax {scenario.pmax_dbw:g} dBW, "
        f"interference x{scenario.interference:g}, objective {scenario.objective}"
    )


def _columns(scenario: Scenario) -> list[str]:
    return [
        "policy",
        "objective",
        "weighted\nPER",
        "partici-\npation",
        f"min rate\n>= {_threshold(scenario.rate_min)}",
        f"min EE\n>= {_threshold(scenario.ee_min)}",
        "feasible",
    ]


def _row(name: str, judgement: Judgement) -> list[str]:
    missed = f"no, {100 * judgement.violation:.1f} % short"
    return [
        name,
        _number(judgement.objective, ".4f"),
        _percent(judgement.weighted_per, 2),
        _percent(judgement.participation, 1),
        _number(judgement.rate_min, ".3f"),
        _number(judgement.energy_efficiency_min, ".1f"),
        "yes" if judgement.feasible else missed,
    ]


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _percent(share: float, digits: int) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def _threshold(value: float | Sequence[float]) -> str:
    if isinstance(value, Sequence):
        return f"{min(value):g} to {max(value):g}"
    return f"{value:g}"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
