"""Results at full scale, for the tables and numbers in the documentation.

Pages have blocks like this one; ``make numbers`` runs them and ``make lint`` checks them::

    <!-- [[[cog
    from full_scale import result
    error = result("mnist").final_error("exact average", "ideal")
    print(f"Without a lossy uplink the final error is {error:.3f}.")
    ]]] -->
    Without a lossy uplink the final error is 0.098.
    <!-- [[[end]]] -->
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from feduplink.experiments import EXPERIMENTS
from feduplink.experiments.parameter_sweeps import Quantity, SweepResult
from feduplink.federated import FederatedHistory
from feduplink.federated.history import Cost
from feduplink.tables import three_digits

RESULTS = Path(__file__).parent / "results"


@cache
def result(name: str) -> Any:
    """Return the result of the experiment ``name``."""
    return EXPERIMENTS[name].load(RESULTS)


def history(name: str, label: str) -> FederatedHistory:
    """Return one comparison of a federated experiment."""
    found: FederatedHistory = result(name).comparisons[label]
    return found


#: A model whose error exceeds this has diverged.
_MAX_ERROR = 1e3


def mean_error(values: Sequence[float], digits: int) -> str:
    """Format a mean and its standard error; the mean alone for a single value.

    >>> mean_error([0.939, 0.941], 3), mean_error([-0.5], 1), mean_error([2e7], 1)
    ('0.940 ± 0.001', '−0.5', 'diverges')
    """
    if not np.isfinite(values).all() or max(values) > _MAX_ERROR:
        return "diverges"
    mean = f"{np.mean(values):.{digits}f}".replace("-", "−")
    return mean if len(values) == 1 else f"{mean} ± {stats.sem(values):.{digits}f}"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table; the first column is flush left, the others flush right."""
    rule = ["---", *["---:"] * (len(columns) - 1)]
    print()
    for cells in (columns, rule, *rows):
        print(f"| {' | '.join(map(str, cells))} |")
    print()


def print_verdicts(*names: str) -> None:
    """Print the claims and verdicts of experiments."""
    print("\n| claim | verdict |\n| --- | --- |")
    for name in names:
        for claim in EXPERIMENTS[name].claims(result(name)):
            print(f"| {claim.claim} | {claim.verdict} |")
    print()


def print_sweep(
    name: str,
    quantity: Quantity,
    policies: Sequence[str],
    *,
    digits: int = 3,
    scale: float = 1.0,
    values: Sequence[float] | None = None,
) -> None:
    """Print means and standard errors over the seeds: a row per policy, a column per value."""
    sweep: SweepResult = result(name)
    shown = sweep.values if values is None else values
    print_table(
        [sweep.parameter, *(f"{value:g}" for value in shown)],
        (
            [
                f"`{policy}`",
                *(_cell(sweep, policy, value, quantity, digits, scale) for value in shown),
            ]
            for policy in policies
        ),
    )


def _cell(
    sweep: SweepResult, policy: str, value: float, quantity: Quantity, digits: int, scale: float
) -> str:
    seeds = sweep.seeds(policy, sweep.values.index(value), quantity)
    if not seeds or np.isnan(seeds).any():
        return "–"
    return mean_error([scale * one for one in seeds], digits)


def print_final_errors(
    comparisons: Mapping[str, FederatedHistory], policies: Sequence[str], digits: int
) -> None:
    """Print final errors: a row per policy, a column per comparison."""
    print_table(
        ["final error", *comparisons],
        (
            [
                f"`{policy}`",
                *(
                    mean_error(one.final_errors(policy), digits) if policy in one.policies else "–"
                    for one in comparisons.values()
                ),
            ]
            for policy in policies
        ),
    )


def cost_to(one: FederatedHistory, policy: str, error: float, cost: Cost) -> str:
    """Format the median cost until ``error`` is reached; a dash if half the runs miss it."""
    value = one.median_cost_to(policy, error, cost)
    return "–" if value is None else three_digits(value)


def print_results() -> None:
    """Print every figure with its caption and the verdicts on its claims."""
    for name, experiment in EXPERIMENTS.items():
        print(f"\n## {experiment.title}\n\n![{experiment.title}]({name}.png)\n")
        print(f"{experiment.caption}\n")
        print(f"`feduplink reproduce {name}`, numbers: [{name}.csv]({name}.csv)")
        claims = experiment.claims(result(name))
        if claims:
            print("\n| verdict | claim | measured |\n| --- | --- | --- |")
            for claim in claims:
                print(f"| {claim.verdict} | {claim.claim} | {claim.measured} |")
