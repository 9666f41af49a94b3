"""What a federated model costs: error against seconds on the air and joules."""

from __future__ import annotations

import math
from dataclasses import replace

from feduplink.experiments.claims import Claim, judged, lower, mean_and_error
from feduplink.experiments.compared_policies import LEARNED, SELECTED, UNSELECTED, names
from feduplink.experiments.compared_schedules import CHEAPER, FIFTH, HALF, SCHEDULES
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import LEARNED_AT, Comparison, Federations, federation
from feduplink.federated import OFDMA, TDMA, FederatedHistory, Ideal
from feduplink.federated.federated_history import Cost
from feduplink.policies import (
    DualPolicy,
    FullPower,
    GraphPolicy,
    OpenLoop,
    Orthogonal,
    RandomPower,
    UnrolledPolicy,
)

TITLE = "Time and energy"
DATA = "mnist"
CAPTION = (
    "Digits with the stated average, alike for all workers (above), with pixel noise that differs "
    "between them (middle), with skewed labels (below): error against rounds, against the time of "
    "the uploads so far (180 kHz, 32 bits per weight; all start together, and who has finished "
    "leaves the air) and against the energy that all workers spent. ideal has no cost. tdma: one "
    "after the other at full power; ofdma: an equal part of the band each. schedule: phases of "
    "least time + 10 s/J · energy; with d, each worker's model arrives in that share of the rounds."
)
RESULT = Federations

ALIKE, NOISY, SKEWED = "alike", "noisy", "skewed labels"
#: What the figure shows; the table has all policies.
SHOWN = (
    *names(Ideal, TDMA, OFDMA, FullPower),
    *SELECTED,
    *names(GraphPolicy, OpenLoop, UnrolledPolicy),
    *(CHEAPER, HALF, FIFTH),
)

#: Policies that let everyone, or nearly everyone, send in every round.
_EVERYONE = (
    FullPower.name,
    *LEARNED,
    *names(OpenLoop, DualPolicy, UnrolledPolicy),
)
#: Those that let few send: workers that would miss a threshold stay silent.
_FEW = names(Orthogonal, RandomPower)
_COSTS: dict[Cost, str] = {"airtime_s": "time", "energy_j": "energy"}


def run(context: ExperimentContext) -> Federations:
    """The comparisons of the other figures of digits, with orthogonal access and schedules."""
    scale = context.scale
    noisy, skewed = (
        Comparison("images", scale.noniid_runs, partition=partition)
        for partition in ("gaussian", "dirichlet")
    )
    return Federations(
        comparisons={
            ALIKE: _with_schedules(context, Comparison("images", scale.runs)),
            NOISY: _with_schedules(context, noisy),
            SKEWED: _with_schedules(context, skewed),
        }
    )


def _with_schedules(context: ExperimentContext, comparison: Comparison) -> FederatedHistory:
    """What other figures show too, and schedules on the same data and channels."""
    found = federation(context, comparison)
    schedules = federation(context, replace(comparison, policies=tuple(SCHEDULES)))
    return replace(found, policies={**found.policies, **schedules.policies})


def claims(result: Federations) -> list[Claim]:
    """What a round costs, and what it takes to learn."""
    history = result.comparisons[ALIKE]
    rounds = {name: _round(history, name) for name in history.policies if name != "ideal"}
    measured = "median round: " + ", ".join(
        f"{name} {seconds:.3g} s / {joules:.3g} J" for name, (seconds, joules) in rounds.items()
    )
    times = [rounds[name][0] for name in _EVERYONE]
    return [
        judged(
            "(ours) The policies that let everyone send differ by no more than 10 % in the time "
            f"of a round ({', '.join(_EVERYONE)})",
            [max(times) <= 1.1 * min(times)],
            measured,
        ),
        judged(
            "(ours) A round with pdx takes less time and less energy than at full power",
            [rounds["pdx"][cost] < rounds["max"][cost] for cost in (0, 1)],
            f"{_share(rounds, 'pdx', 'max')} of the time and energy of full power",
        ),
        judged(
            "(ours) One worker after the other (tdma) takes half the energy of pdx, or less, and "
            "at least twice the time",
            [
                rounds["tdma"][1] <= 0.5 * rounds["pdx"][1],
                rounds["tdma"][0] >= 2 * rounds["pdx"][0],
            ],
            f"tdma {_share(rounds, 'tdma', 'pdx')}, ofdma {_share(rounds, 'ofdma', 'pdx')} of the "
            "time and energy of pdx",
        ),
        *(
            claim
            for label, found in result.comparisons.items()
            for claim in (
                *(_few_pay(found, label, cost) for cost in _COSTS),
                _few_end_higher(found, label),
                _a_fifth_is_cheaper(found, label),
            )
        ),
    ]


def _round(history: FederatedHistory, name: str) -> tuple[float, float]:
    """Median seconds and joules of a round."""
    costs = (history.median_cost(name, "airtime_s"), history.median_cost(name, "energy_j"))
    seconds, joules = (math.nan if cost is None else cost for cost in costs)
    return seconds, joules


def _share(rounds: dict[str, tuple[float, float]], name: str, of: str) -> str:
    return " and ".join(f"{a / b:.0%}" for a, b in zip(rounds[name], rounds[of], strict=True))


def _few_pay(history: FederatedHistory, label: str, cost: Cost) -> Claim:
    """That policies which let few send get more cheaply to a learned model than pdx, by run."""
    target = LEARNED_AT * history.final_error("ideal")
    spent = {name: history.costs_to(name, target, cost) for name in (*_FEW, "pdx")}
    unit = "s" if cost == "airtime_s" else "J"

    def in_words(name: str) -> str:
        median = history.median_cost_to(name, target, cost)
        rounds = history.median_cost_to(name, target, "rounds")
        if median is None or rounds is None:
            missed = sum(math.isinf(value) for value in history.costs_to(name, target, cost))
            return f"{name} not reached in {missed} of {len(history.policies[name])} runs"
        return f"{name} {median:.3g} {unit} in {rounds:.0f} rounds"

    return judged(
        f"(ours) Letting few send ({', '.join(_FEW)}) saves {_COSTS[cost]} against pdx on the way "
        f"to {LEARNED_AT:g} times the final error of ideal FL, data {label}",
        [lower(spent[name], spent["pdx"]) for name in _FEW],
        f"error {target:.3f}: "
        + ", ".join(in_words(n) for n in history.policies if n not in ("ideal", *UNSELECTED)),
    )


def _few_end_higher(history: FederatedHistory, label: str) -> Claim:
    """That they pay for it with the error in the end, by run."""
    finals = {name: history.final_errors(name) for name in (*_FEW, "pdx")}
    return judged(
        f"(ours) Letting few send ({', '.join(_FEW)}) ends with a higher error than pdx, data "
        f"{label}",
        [lower(finals["pdx"], finals[name]) for name in _FEW],
        ", ".join(f"{name} {mean_and_error(values, 4)}" for name, values in finals.items()),
    )


def _a_fifth_is_cheaper(history: FederatedHistory, label: str) -> Claim:
    """That guaranteed delivery in a fifth of the rounds learns more cheaply than orth, by run."""
    target = LEARNED_AT * history.final_error("ideal")
    rivals = (FIFTH, Orthogonal.name)
    spent = {cost: [history.costs_to(name, target, cost) for name in rivals] for cost in _COSTS}
    finals = {name: history.final_errors(name) for name in (CHEAPER, HALF, *rivals)}
    return judged(
        "(ours) A schedule that delivers every worker's model in a fifth of the rounds takes less "
        f"time and less energy than orth to {LEARNED_AT:g} times the final error of ideal FL, "
        f"data {label}",
        [lower(*values) for values in spent.values()],
        "final errors "
        + ", ".join(f"{name} {mean_and_error(values, 4)}" for name, values in finals.items()),
    )
