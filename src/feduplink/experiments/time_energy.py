"""Error of a federated model against the airtime and energy of its uploads."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

from feduplink.experiments import Experiment
from feduplink.experiments.claims import format_mean_and_error, is_lower, judge_claim
from feduplink.experiments.compared import (
    LEARNED,
    SCHEDULE,
    SCHEDULE_FIFTH,
    SCHEDULE_HALF,
    SCHEDULES,
    SELECTED,
    UNSELECTED,
    names,
)
from feduplink.experiments.context import ExperimentContext
from feduplink.experiments.federated_tasks import (
    LEARNED_AT,
    Comparison,
    FederatedResult,
)
from feduplink.federated import FederatedHistory
from feduplink.federated.history import Cost
from feduplink.policies import (
    OFDMA,
    TDMA,
    DualPolicy,
    FullPower,
    GraphPolicy,
    Ideal,
    OpenLoop,
    Orthogonal,
    RandomPower,
    UnrolledPolicy,
)
from feduplink.reporting.federated import plot_costs
from feduplink.reporting.style import StyledFigure
from feduplink.storage.run_directory import Claim

#: Labels of the comparisons on digits.
ALIKE, NOISY, SKEWED = "alike", "noisy", "skewed labels"

#: Policies shown in the figure; the table contains all.
SHOWN = (
    *names(Ideal, TDMA, OFDMA, FullPower),
    *SELECTED,
    *names(GraphPolicy, OpenLoop, UnrolledPolicy),
    *(SCHEDULE, SCHEDULE_HALF, SCHEDULE_FIFTH),
)
#: Policies compared on air quality and reviews, where the channels, and hence the relative costs of
#: a round, are those of the digits.
OTHER_DATA_POLICIES = (
    *names(Ideal, TDMA, RandomPower, Orthogonal, UnrolledPolicy),
    *(SCHEDULE, SCHEDULE_HALF, SCHEDULE_FIFTH),
)
#: Policies with which all workers, or nearly all, transmit in every round.
_ALL_TRANSMIT = (FullPower.name, *LEARNED, *names(OpenLoop, DualPolicy, UnrolledPolicy))
#: Policies that silence workers which would violate a constraint.
_FEW_TRANSMIT = names(Orthogonal, RandomPower)

_COSTS: dict[Cost, str] = {"airtime_s": "time", "energy_j": "energy"}
_AXES = (
    "error against rounds, against the time of the uploads so far (180 kHz, 32 bits per weight; "
    "all workers start together, and a worker stops transmitting once its upload is complete) and "
    "against the energy of all workers. ideal has no cost. schedule: phases of least time + "
    "10 s/J · energy; with d, each worker's model arrives in that share of the rounds. tdma: one "
    "worker after the other at full power."
)


class UploadCosts(Experiment[FederatedResult]):
    """Base class of experiments on the airtime and energy up to a target error."""

    result_type = FederatedResult

    def claims(self, result: FederatedResult) -> list[Claim]:
        """Claims on costs and final errors of policies that silence workers, and of schedules."""
        return [
            claim
            for label, history in result.comparisons.items()
            for claim in (
                *(_few_transmit_claim(history, label, cost) for cost in _COSTS),
                _final_error_claim(history, label),
                _schedule_claim(history, label),
            )
        ]

    def plot(self, result: FederatedResult, caption: str = "") -> StyledFigure:
        """Draw the error against rounds, seconds and joules."""
        shown = {
            label: history.only(name for name in SHOWN if name in history.policies)
            for label, history in result.comparisons.items()
        }
        return plot_costs(shown, caption)


class DigitsCosts(UploadCosts):
    """Digits with i.i.d. data, with noise that differs between workers, and with skewed labels."""

    name = "time-energy"
    title = "Time and energy"
    caption = (
        "Digits with the average that the paper states: i.i.d. (above), with pixel noise that "
        f"differs between workers (middle), with skewed labels (below): {_AXES} ofdma: an equal "
        "part of the band each."
    )
    data = "mnist"

    def run(self, context: ExperimentContext) -> FederatedResult:
        """Add schedules to the comparisons of the other figures of digits."""
        comparisons = {
            ALIKE: Comparison("mnist"),
            NOISY: Comparison("mnist", partition="gaussian"),
            SKEWED: Comparison("mnist", partition="dirichlet"),
        }
        return FederatedResult(
            comparisons={
                label: _with_schedules(context, comparison)
                for label, comparison in comparisons.items()
            }
        )

    def claims(self, result: FederatedResult) -> list[Claim]:
        """Claims on the costs of one round and on the costs up to the target error."""
        history = result.comparisons[ALIKE]
        rounds = {
            name: _median_round(history, name) for name in history.policies if name != "ideal"
        }
        measured = "median round: " + ", ".join(
            f"{name} {seconds:.3g} s / {joules:.3g} J" for name, (seconds, joules) in rounds.items()
        )
        times = [rounds[name][0] for name in _ALL_TRANSMIT]
        return [
            judge_claim(
                "(ours) The policies with which all workers transmit differ by at most 10 % in "
                f"the time of a round ({', '.join(_ALL_TRANSMIT)})",
                [max(times) <= 1.1 * min(times)],
                measured,
            ),
            judge_claim(
                "(ours) A round with pdx takes less time and less energy than at full power",
                [rounds["pdx"][cost] < rounds["max"][cost] for cost in (0, 1)],
                f"{_format_shares(rounds, 'pdx', 'max')} of the time and energy of full power",
            ),
            judge_claim(
                "(ours) One worker after the other (tdma) takes at most half the energy of pdx and "
                "at least twice the time",
                [
                    rounds["tdma"][1] <= 0.5 * rounds["pdx"][1],
                    rounds["tdma"][0] >= 2 * rounds["pdx"][0],
                ],
                f"tdma {_format_shares(rounds, 'tdma', 'pdx')}, ofdma "
                f"{_format_shares(rounds, 'ofdma', 'pdx')} of the time and energy of pdx",
            ),
            *super().claims(result),
        ]


def _with_schedules(context: ExperimentContext, comparison: Comparison) -> FederatedHistory:
    """Run the comparison, and schedules on the same data and channels."""
    found = comparison.run(context)
    schedules = replace(comparison, policies=tuple(SCHEDULES)).run(context)
    return replace(found, policies={**found.policies, **schedules.policies})


def _median_round(history: FederatedHistory, name: str) -> tuple[float, float]:
    """Median time, s, and energy, J, of a round."""
    costs = (history.median_cost(name, "airtime_s"), history.median_cost(name, "energy_j"))
    seconds, joules = (math.nan if cost is None else cost for cost in costs)
    return seconds, joules


def _format_shares(rounds: dict[str, tuple[float, float]], name: str, of: str) -> str:
    """Time and energy of a policy's round relative to another's, in percent."""
    return " and ".join(f"{a / b:.0%}" for a, b in zip(rounds[name], rounds[of], strict=True))


class OtherDataCosts(UploadCosts):
    """One comparison of policies and schedules on other data than digits.

    Attributes:
        label: label of the comparison.
    """

    data: ClassVar[str]
    label: ClassVar[str]

    def run(self, context: ExperimentContext) -> FederatedResult:
        """Run the comparison."""
        history = Comparison(self.data, OTHER_DATA_POLICIES).run(context)
        return FederatedResult(comparisons={self.label: history})


class AirQualityCosts(OtherDataCosts):
    """Costs of learning air quality."""

    name = "time-energy-airquality"
    title = "Time and energy on air quality"
    caption = f"Air quality with the average that the paper states: {_AXES}"
    data = "airquality"
    label = "air quality"


class MovieReviewsCosts(OtherDataCosts):
    """Costs of learning movie reviews."""

    name = "time-energy-imdb"
    title = "Time and energy on reviews"
    caption = f"Movie reviews with the average that the paper states: {_AXES}"
    data = "imdb"
    label = "reviews"


def _few_transmit_claim(history: FederatedHistory, label: str, cost: Cost) -> Claim:
    """Claim that silencing workers costs less than ``pdx`` up to the target error."""
    target = LEARNED_AT * history.final_error("ideal")
    spent = {name: history.costs_to(name, target, cost) for name in (*_FEW_TRANSMIT, "pdx")}
    unit = "s" if cost == "airtime_s" else "J"

    def format_cost(name: str) -> str:
        median = history.median_cost_to(name, target, cost)
        rounds = history.median_cost_to(name, target, "rounds")
        if median is None or rounds is None:
            failures = sum(math.isinf(value) for value in history.costs_to(name, target, cost))
            return f"{name} not reached in {failures} of {len(history.policies[name])} runs"
        return f"{name} {median:.3g} {unit} in {rounds:.0f} rounds"

    shown = (name for name in history.policies if name not in ("ideal", *UNSELECTED))
    return judge_claim(
        f"(ours) Silencing most workers ({', '.join(_FEW_TRANSMIT)}) takes less {_COSTS[cost]} "
        f"than pdx to {LEARNED_AT:g} times the final error of ideal FL; data: {label}",
        [is_lower(spent[name], spent["pdx"]) for name in _FEW_TRANSMIT],
        f"error {target:.3f}: " + ", ".join(map(format_cost, shown)),
    )


def _final_error_claim(history: FederatedHistory, label: str) -> Claim:
    """Claim that silencing workers gives a higher final error than ``pdx``."""
    finals = {name: history.final_errors(name) for name in (*_FEW_TRANSMIT, "pdx")}
    return judge_claim(
        f"(ours) Silencing most workers ({', '.join(_FEW_TRANSMIT)}) ends with a higher error than "
        f"pdx; data: {label}",
        [is_lower(finals["pdx"], finals[name]) for name in _FEW_TRANSMIT],
        ", ".join(f"{name} {format_mean_and_error(v, 4)}" for name, v in finals.items()),
    )


def _schedule_claim(history: FederatedHistory, label: str) -> Claim:
    """Claim that a delivery rate of a fifth costs less than ``orth``."""
    target = LEARNED_AT * history.final_error("ideal")
    rivals = (SCHEDULE_FIFTH, Orthogonal.name)
    spent = [[history.costs_to(name, target, cost) for name in rivals] for cost in _COSTS]
    finals = {name: history.final_errors(name) for name in (SCHEDULE, SCHEDULE_HALF, *rivals)}
    return judge_claim(
        "(ours) A schedule that delivers every worker's model in a fifth of the rounds takes less "
        f"time and less energy than orth to {LEARNED_AT:g} times the final error of ideal FL; "
        f"data: {label}",
        [is_lower(schedule, orth) for schedule, orth in spent],
        "final errors "
        + ", ".join(f"{name} {format_mean_and_error(v, 4)}" for name, v in finals.items()),
    )
