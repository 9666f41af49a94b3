"""Results made up, so that what follows from them is obvious."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from feduplink.experiments.cell_sweep import Sweep
from feduplink.experiments.federations import Federations
from feduplink.experiments.judged_settings import Figures
from feduplink.federated import FederatedHistory, RunHistory
from feduplink.storage.run_directory import Claim

HOLDS, IN_PART, FAILS, OPEN = "holds", "holds in part", "does not hold", "undecided"

#: (objective, weighted PER) at every value of the parameter.
Pairs = Sequence[tuple[float, float | None]]
#: Largest relative shortfall that goes with each verdict on the constraints.
_SHORTFALLS = {True: -0.1, False: 0.25, None: 0.0}


def verdicts(claims: Sequence[Claim]) -> list[str]:
    return [claim.verdict for claim in claims]


def figures(objective: float, per: float | None = 0.1, *, feasible: bool | None = True) -> Figures:
    """A policy that meets the constraints needs no repair."""
    return Figures(
        objective=objective,
        weighted_per=per,
        participation=0.5,
        feasible=feasible,
        shortfall=_SHORTFALLS[feasible],
        shortfall_error=0.05,
        repaired_objective=objective if feasible else objective / 2,
    )


def sweep(**policies: Pairs) -> Sweep:
    """Two seeds that agree to the last digit, so that every difference is one; all feasible.

    As many values as the policies have; ``rand_unselected`` stands for ``rand:unselected``.
    """
    count = max(map(len, policies.values()))
    return Sweep(
        parameter="x",
        values=[float(place + 1) for place in range(count)],
        logarithmic=False,
        policies={
            name.replace("_", ":"): [[figures(objective, per)] * 2 for objective, per in pairs]
            for name, pairs in policies.items()
        },
    )


def history(
    errors: Mapping[str, float | Sequence[float]],
    costs: Mapping[str, tuple[float, float]] | None = None,
    task: str = "digits",
    rounds: int = 3,
) -> FederatedHistory:
    """Two equal runs, with one error in all rounds or one each.

    Seconds and joules of a round if given.
    """
    runs = {}
    for name, error in errors.items():
        curve = tuple(error) if isinstance(error, Sequence) else (error,) * rounds
        seconds, joules = costs[name] if costs and name in costs else (None, None)
        values = (2, 3, seconds, joules, 9)
        one = RunHistory(curve, *((value,) * len(curve) for value in values))
        runs[name] = (one, one)
    return FederatedHistory(task, "error rate", runs)


def federations(
    task: str = "digits", rounds: int = 3, **errors: Mapping[str, float | Sequence[float]]
) -> Federations:
    """By comparison: final errors; ``exact_average`` stands for ``exact average``."""
    return Federations(
        comparisons={
            label.replace("_", " "): history(final, task=task, rounds=rounds)
            for label, final in errors.items()
        }
    )
