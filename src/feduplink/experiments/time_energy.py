"""What a federated model costs: error against seconds on the air and joules."""

from __future__ import annotations

import math
from dataclasses import replace

from feduplink.experiments.claims import judged
from feduplink.experiments.compared_policies import LEARNED, SELECTED, names
from feduplink.experiments.compared_schedules import CHEAPER, FIFTH, HALF, SCHEDULES
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import Comparison, Federations, federation
from feduplink.experiments.learning_costs import AXES, learning_claims
from feduplink.federated import OFDMA, TDMA, FederatedHistory, Ideal
from feduplink.policies import DualPolicy, FullPower, GraphPolicy, OpenLoop, UnrolledPolicy
from feduplink.storage.run_directory import Claim

TITLE = "Time and energy"
DATA = "mnist"
VERSION = 1
CAPTION = (
    "Digits with the stated average, alike for all workers (above), with pixel noise that differs "
    f"between them (middle), with skewed labels (below): {AXES} ofdma: an equal part of the band "
    "each."
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
        *learning_claims(result),
    ]


def _round(history: FederatedHistory, name: str) -> tuple[float, float]:
    """Median seconds and joules of a round."""
    costs = (history.median_cost(name, "airtime_s"), history.median_cost(name, "energy_j"))
    seconds, joules = (math.nan if cost is None else cost for cost in costs)
    return seconds, joules


def _share(rounds: dict[str, tuple[float, float]], name: str, of: str) -> str:
    return " and ".join(f"{a / b:.0%}" for a, b in zip(rounds[name], rounds[of], strict=True))
