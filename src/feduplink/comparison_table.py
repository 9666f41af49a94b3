"""The comparison of policies as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from feduplink.feasibility import VERDICTS
from feduplink.judgement import Judgement, Reached
from feduplink.optimum import Optimum
from feduplink.scenario import Scenario
from feduplink.text_table import TextTable

_VERDICTS = (
    "constraints: largest shortfall with the error of so many channels, all errors together 95 %; "
    "met or missed beyond 1 % of the threshold, open if the error leaves both possible"
)
_DISTANCES = (
    "below optimum: for policies that meet every constraint on these very channels, as the optimum "
    "does; the others have no such distance"
)
#: The row that no policy that meets the constraints can exceed by more than the certificate's gap.
OPTIMUM = "optimum"


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
        _columns(judgements, optimum),
        [_row(name, row, optimum) for name, row in rows.items()],
        [*_remarks(judgements, optimum), *notes],
    )


def comparison_markdown(
    judgements: Mapping[str, Judgement],
    scenario: Scenario,
    optimum: Optimum | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The same table in Markdown."""
    table = comparison_table(judgements, scenario, optimum).markdown()
    remarks = [f"{remark[0].upper()}{remark[1:]}." for remark in _remarks(judgements, optimum)]
    # Notes begin with the name of a policy as it is written in the table, and stand apart.
    return "\n".join([table, *remarks, *(f"\n{note}." for note in notes)]) + "\n"


def _rows(judgements: Mapping[str, Judgement], optimum: Optimum | None) -> Mapping[str, Judgement]:
    return {**judgements, OPTIMUM: optimum.solution.judgement} if optimum else judgements


def _remarks(judgements: Mapping[str, Judgement], optimum: Optimum | None) -> list[str]:
    """What the reader has to know, a sentence each without its capital and full stop."""
    remarks = [*_units(judgements), _VERDICTS]
    if optimum is None:
        return remarks
    above = (
        f"{optimum.gap:.4f} above the best one found"
        if math.isfinite(optimum.gap)
        else "but none was found that lets every worker be heard"
    )
    return [
        *remarks,
        _DISTANCES,
        f"no policy that meets the constraints here exceeds {optimum.upper_bound:.4f}: proved, "
        f"{above}",
    ]


def _units(judgements: Mapping[str, Judgement]) -> list[str]:
    """What the columns of the constraints show, a sentence for each kind of mean."""
    over = {True: "mean while it transmits", False: "mean over all rounds"}
    constraints = [reached.constraint for reached in _first(judgements)]
    sentences = []
    for on_air, mean in over.items():
        shown = [c.measure for c in constraints if c.measure.on_air_only is on_air]
        if shown:
            named = [f"{m.label} ({m.unit})" if m.unit else m.label for m in shown]
            *more, last = named
            listed = f"{', '.join(more)} and {last}" if more else last
            sentences.append(f"{listed}: the worst worker's {mean}")
    return sentences


def _first(judgements: Mapping[str, Judgement]) -> list[Reached]:
    """What the first of them came to in every constraint; all have the same constraints."""
    return list(next(iter(judgements.values())).reached.values()) if judgements else []


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


def _columns(judgements: Mapping[str, Judgement], optimum: Optimum | None) -> list[str]:
    return [
        "policy",
        "objec-\ntive",
        *(["below\noptimum"] if optimum else []),
        "weigh-\nted PER",
        "partici-\npation",
        *(_constraint_column(reached) for reached in _first(judgements)),
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
        *(_number(reached.worst, _form(reached)) for reached in judgement.reached.values()),
        # The optimum is of these channels, and meets the constraints on them.
        "met here" if name == OPTIMUM else _verdict(judgement),
    ]


def _constraint_column(reached: Reached) -> str:
    constraint = reached.constraint
    limits = constraint.limit.tolist()
    shown = limits[0] if len(set(limits)) == 1 else limits
    return f"{constraint.measure.label}\n{'<=' if constraint.at_most else '>='} {_threshold(shown)}"


def _form(reached: Reached) -> str:
    """Three significant digits of the largest limit, so that rows compare."""
    largest = float(reached.constraint.limit.abs().max())
    if largest == 0:
        return ".3g"
    return f".{min(9, max(0, 2 - math.floor(math.log10(largest))))}f"


def _verdict(judgement: Judgement) -> str:
    """``met``, ``missed`` or ``open``, and the largest shortfall with its error."""
    word, error = VERDICTS[judgement.feasible], judgement.shortfall_error
    if error == 0 and judgement.shortfall == 0:
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
