"""What it costs to learn, whatever the data: who sends in a round, against seconds and joules."""

from __future__ import annotations

import math

from feduplink.experiments.claims import judged, lower, mean_and_error
from feduplink.experiments.compared_policies import UNSELECTED, names
from feduplink.experiments.compared_schedules import CHEAPER, FIFTH, HALF
from feduplink.experiments.federations import LEARNED_AT, Federations
from feduplink.federated import FederatedHistory
from feduplink.federated.history import Cost
from feduplink.policies import Orthogonal, RandomPower
from feduplink.storage.run_directory import Claim

#: What a figure of costs shows, as its caption says it.
AXES = (
    "error against rounds, against the time of the uploads so far (180 kHz, 32 bits per weight; "
    "all start together, and who has finished leaves the air) and against the energy that all "
    "workers spent. ideal has no cost. schedule: phases of least time + 10 s/J · energy; with d, "
    "each worker's model arrives in that share of the rounds. tdma: one after the other at full "
    "power."
)

#: Policies that let few send: workers that would miss a threshold stay silent.
_FEW = names(Orthogonal, RandomPower)
_COSTS: dict[Cost, str] = {"airtime_s": "time", "energy_j": "energy"}


def learning_claims(result: Federations) -> list[Claim]:
    """For every comparison, what is saved by letting few send, and what that costs in the end."""
    return [
        claim
        for label, found in result.comparisons.items()
        for claim in (
            *(_few_pay(found, label, cost) for cost in _COSTS),
            _few_end_higher(found, label),
            _a_fifth_is_cheaper(found, label),
        )
    ]


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
