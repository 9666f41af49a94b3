"""The table of a comparison of policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from feduplink.judgement import ConstraintValue, Judgement
from feduplink.optimum import Optimum
from feduplink.scenario import Scenario
from feduplink.tables import TextTable

#: The row of the optimum, which no feasible policy exceeds by more than the certificate's gap.
OPTIMUM = "optimum"

_CONSTRAINTS = (
    "constraints: smallest margin with its confidence interval, all intervals jointly 95 %; "
    "infeasible: violated by more than 1 % of the limit; inconclusive: the interval allows both"
)
_DISTANCES = (
    "below optimum: for policies that meet every constraint on these very channels, as the optimum "
    "does; the others have no such distance"
)


def comparison_table(
    judgements: Mapping[str, Judgement],
    scenario: Scenario,
    optimum: Optimum | None = None,
    notes: Sequence[str] = (),
) -> TextTable:
    """Return the table of a comparison, one row per policy.

    Args:
        judgements: judgements by policy.
        scenario: scenario of all of them.
        optimum: optimum of the same channels; adds a row, and a column with the distance of each
            policy that meets the constraints on these channels.
        notes: on these policies and channels, without capitals and full stops.
    """
    rows = with_optimum(judgements, optimum)
    return TextTable(
        _title(scenario),
        _columns(judgements, optimum),
        [_row(name, row, optimum) for name, row in rows.items()],
        _remarks(judgements, optimum),
        notes,
    )


def with_optimum(
    judgements: Mapping[str, Judgement], optimum: Optimum | None
) -> Mapping[str, Judgement]:
    """Return the judgements with that of the optimum, if there is one, at their end."""
    return {**judgements, OPTIMUM: optimum.solution.judgement} if optimum else judgements


def _remarks(judgements: Mapping[str, Judgement], optimum: Optimum | None) -> list[str]:
    """Explain the columns and the bound, a sentence each without its capital and full stop."""
    remarks = [*_units(judgements), _CONSTRAINTS]
    if optimum is None:
        return remarks
    above = (
        f"{optimum.gap:.4f} above the best one found"
        if math.isfinite(optimum.gap)
        else "but none was found that lets every worker be heard"
    )
    bounded = "no policy"
    if not all(judgement.is_simultaneous for judgement in judgements.values()):
        bounded = "no policy with one power per worker and round, which schedules do not have,"
    return [
        *remarks,
        _DISTANCES,
        f"{bounded} that meets the constraints here exceeds {optimum.upper_bound:.4f}: proved, "
        f"{above}",
    ]


def _units(judgements: Mapping[str, Judgement]) -> list[str]:
    """Explain the columns of the constraints, a sentence for each kind of mean."""
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


def _first(judgements: Mapping[str, Judgement]) -> list[ConstraintValue]:
    """The constraints of the first judgement; all have the same ones."""
    return list(next(iter(judgements.values())).constraints.values()) if judgements else []


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
        "constraints,\nmargin in %",
    ]


def _row(name: str, judgement: Judgement, optimum: Optimum | None) -> list[str]:
    below = optimum.below(judgement) if optimum else None
    return [
        name,
        _number(judgement.objective, ".4f"),
        *([_number(math.nan if below is None else below, ".4f")] if optimum else []),
        _percent(judgement.weighted_per, 2),
        _percent(judgement.participation, 1),
        *(_number(value.worst, _form(value)) for value in judgement.constraints.values()),
        # The optimum is of these channels, and meets the constraints on them.
        "feasible here" if name == OPTIMUM else _verdict(judgement),
    ]


def _constraint_column(value: ConstraintValue) -> str:
    constraint = value.constraint
    limits = constraint.limit.tolist()
    shown = limits[0] if len(set(limits)) == 1 else limits
    return f"{constraint.measure.label}\n{'<=' if constraint.at_most else '>='} {_threshold(shown)}"


def _form(value: ConstraintValue) -> str:
    """Three significant digits of the largest limit, so that rows compare."""
    largest = float(value.constraint.limit.abs().max())
    if largest == 0:
        return ".3g"
    return f".{min(9, max(0, 2 - math.floor(math.log10(largest))))}f"


def _verdict(judgement: Judgement) -> str:
    """The verdict, and the smallest margin with half the width of its confidence interval."""
    width = judgement.margin_ci
    if width == 0 and judgement.margin == 0:
        return judgement.verdict  # nothing is constrained
    half = f"{100 * width:.1f}" if math.isfinite(width) else "∞"
    return f"{judgement.verdict} {100 * judgement.margin:+z.1f}±{half}"


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _percent(share: float, digits: int) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def _threshold(value: float | Sequence[float]) -> str:
    if isinstance(value, Sequence):
        return f"{min(value):.4g} to {max(value):.4g}"
    return f"{value:.4g}"
