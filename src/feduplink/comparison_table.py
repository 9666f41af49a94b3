"""The comparison of policies as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from feduplink.feasibility import VERDICTS
from feduplink.optimum import Optimum
from feduplink.problem import Judgement
from feduplink.scenario import Scenario
from feduplink.text_table import TextTable

_UNITS = "rate (nats/s/Hz) and EE (nats/s/Hz/W): the worst worker's mean while it transmits"
_VERDICTS = (
    "constraints: largest shortfall with the error of so many channels, all errors together 95 %; "
    "met or missed beyond 1 % of the threshold, open if the error leaves both possible"
)
_DISTANCES = (
    "below optimum: for policies that meet every constraint on these very channels, as the optimum "
    "does; the others have no such distance"
)
_OPTIMUM = "optimum"


def comparison_table(
    judgements: Mapping[str, Judgement],
    scenario: Scenario,
    optimum: Optimum | None = None,
    notes: Sequence[str] = (),
) -> TextTable:
    """One row per policy, all figures that must be shown together.

    With an ``optimum``, a row for it and a column with how far each policy that meets the
    constraints on these channels is below it. ``notes`` stand under the table: what its reader has
    to know, without capitals and full stops.
    """
    rows = _rows(judgements, optimum)
    return TextTable(
        _title(scenario),
        _columns(scenario, optimum),
        [_row(name, row, optimum) for name, row in rows.items()],
        [*_remarks(optimum), *notes],
    )


def comparison_markdown(
    judgements: Mapping[str, Judgement],
    scenario: Scenario,
    optimum: Optimum | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The same table in Markdown."""
    table = comparison_table(judgements, scenario, optimum).markdown()
    remarks = [f"{remark[0].upper()}{remark[1:]}." for remark in _remarks(optimum)]
    # Notes begin with the name of a policy as it is written in the table, and stand apart.
    return "\n".join([table, *remarks, *(f"\n{note}." for note in notes)]) + "\n"


def _rows(judgements: Mapping[str, Judgement], optimum: Optimum | None) -> Mapping[str, Judgement]:
    return {**judgements, _OPTIMUM: optimum.solution.judgement} if optimum else judgements


def _remarks(optimum: Optimum | None) -> list[str]:
    """What the reader has to know, a sentence each without its capital and full stop."""
    if optimum is None:
        return [_UNITS, _VERDICTS]
    above = (
        f"{optimum.gap:.4f} above the best one found"
        if math.isfinite(optimum.gap)
        else "but none was found that lets every worker be heard"
    )
    return [
        _UNITS,
        _VERDICTS,
        _DISTANCES,
        f"no policy that meets the constraints here exceeds {optimum.upper_bound:.4f}: proved, "
        f"{above}",
    ]


def _title(scenario: Scenario) -> str:
    parts = [
        f"{scenario.workers} worker{'s' if scenario.workers > 1 else ''}",
        f"Pmax {_threshold(scenario.pmax_dbw)} dBW",
        f"interference x{scenario.interference:g}",
        f"objective {scenario.objective}",
    ]
    if scenario.utility != Scenario().utility:
        parts.append(f"utility {scenario.utility}")
    if scenario.csi_noise > 0:
        parts.append(f"CSI noise of variance {scenario.csi_noise:g}")
    return ", ".join(parts)


def _columns(scenario: Scenario, optimum: Optimum | None) -> list[str]:
    return [
        "policy",
        "objec-\ntive",
        *(["below\noptimum"] if optimum else []),
        "weigh-\nted PER",
        "partici-\npation",
        f"rate\n>= {_threshold(scenario.rate_min)}",
        f"EE\n>= {_threshold(scenario.ee_min)}",
        "constraints,\nshortfall in %",
    ]


def _row(name: str, judgement: Judgement, optimum: Optimum | None) -> list[str]:
    below = optimum.below(judgement) if optimum else None
    return [
        name,
        _number(judgement.objective, ".4f"),
        *([_number(math.nan if below is None else below, ".4f")] if optimum else []),
        _percent(judgement.weighted_per, 2),
        _percent(judgement.participation, 1),
        _number(judgement.rate_min, ".3f"),
        _number(judgement.energy_efficiency_min, ".1f"),
        # The optimum is of these channels, and meets the constraints on them.
        "met here" if name == _OPTIMUM else _verdict(judgement),
    ]


def _verdict(judgement: Judgement) -> str:
    """``met``, ``missed`` or ``open``, and the largest shortfall with its error."""
    word, error = VERDICTS[judgement.feasible], judgement.shortfall_error
    if error == 0:
        return word  # nothing is constrained
    within = f"{100 * error:.1f}" if math.isfinite(error) else "∞"
    return f"{word} {100 * judgement.shortfall:+.1f}±{within}"


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _percent(share: float, digits: int) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def _threshold(value: float | Sequence[float]) -> str:
    if isinstance(value, Sequence):
        return f"{min(value):.4g} to {max(value):.4g}"
    return f"{value:.4g}"
