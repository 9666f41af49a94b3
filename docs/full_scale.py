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
from typing import Any, Literal

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


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: bool = True
) -> None:
    """Print a Markdown table; with ``numbers`` all columns but the first are flush right."""
    rule = ["---", *["---:" if numbers else "---"] * (len(columns) - 1)]
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


#: The policies of the first page, with what they are.
_HEADLINE = {
    "rand": "random powers, then silencing of workers below a threshold",
    "orth": "best powers without interference, then the same silencing",
    "openloop": "channel inversion with two tuned parameters",
    "pdm": "perceptron of the paper",
    "pdg": "graph network of the paper",
    "pdx": "unrolled network of this package",
    "optimum": "best powers found for these channels",
}


def print_headline() -> None:
    """Print the table of the first page: objective and participation at ×1 and ×8."""
    sweep: SweepResult = result("interference")
    at = [sweep.values.index(factor) for factor in (1, 8)]
    rows = []
    for name, text in _HEADLINE.items():
        objective = [f"{sweep.mean(name, index, 'objective'):.3f}" for index in at]
        active = f"{sweep.mean(name, at[1], 'participation'):.0%}"
        rows.append([f"`{name}`, {text}", *objective, active])
    print_table(["policy", "objective", "objective, ×8", "transmitting, ×8"], rows)


#: The policies in the table of costs, with what they are.
_ROUND_COSTS = {
    "max": "full power",
    "openloop": "",
    "pdx": "",
    "pdg": "",
    "tdma": "one worker after another",
    "ofdma": "an equal part of the band each",
    "orth": "silences most workers",
    "schedule": "κ = 0",
    "schedule:kappa=10": "κ = 10 s/J",
    "schedule:kappa=10,d=0.2": "κ = 10 s/J, each worker in a fifth of the rounds",
}


_COSTS: tuple[Literal["airtime_s"], Literal["energy_j"]] = ("airtime_s", "energy_j")


def print_round_costs() -> None:
    """Print time and energy per round and to a medium error, and final errors, on digits."""
    alike, skewed = (history("time-energy", label) for label in ("alike", "skewed labels"))
    error = 1.25 * alike.final_error("ideal")
    rows = []
    for name, text in _ROUND_COSTS.items():
        label = f"`{name.partition(':')[0]}`" + (f", {text}" if text else "")
        per_round = [f"{alike.median_cost(name, cost):.2f}" for cost in _COSTS]
        to_error = [cost_to(alike, name, error, cost) for cost in _COSTS]
        final = [f"{one.final_error(name):.3f}" for one in (alike, skewed)]
        rows.append([label, *per_round, *to_error, *final])
    to = f"to an error of {error:.3f}"
    print_table(
        ["policy", "s per round", "J", f"s {to}", "J", "final error", "skewed labels"], rows
    )


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


#: The two readings of Rand and Orth, as claims state them.
_READINGS = ("with selection, as in the text", "without selection, as in the code")
#: The experiments of federations: the task in words, and its labels in claims.
_FEDERATED = {
    "airquality": {"air quality": ""},
    "mnist": {"digits": ""},
    "imdb": {"reviews": ""},
    "noniid": {"digits, pixel noise": "gaussian", "digits, skewed labels": "dirichlet"},
}
_FEDERATED_CLAIMS = ("lower final error", "fewer rounds", "learns more steadily")


def print_power_verdicts(*names: str) -> None:
    """Print one row per claim of these experiments, with the verdicts under both readings."""
    rows = []
    for name in names:
        merged: dict[str, dict[str, str]] = {}
        for claim in EXPERIMENTS[name].claims(result(name)):
            if claim.claim.startswith("(ours)"):
                continue
            text, reading = claim.claim, ""
            for known in _READINGS:
                if f" ({known})" in text:
                    text, reading = text.replace(f" ({known})", ""), known
            merged.setdefault(text, {})[reading] = str(claim.verdict)
        for text, verdicts in merged.items():
            both = verdicts.get("") or _joined([verdicts[one] for one in _READINGS])
            rows.append([text, both, f"[{name}](results/{name}.png)"])
    columns = ["claim", "verdict (with / without selection)", "figure"]
    print_table(columns, rows, numbers=False)


def _joined(verdicts: Sequence[str]) -> str:
    """Join the verdicts under both readings; equal ones are given once."""
    return verdicts[0] if len(set(verdicts)) == 1 else " / ".join(verdicts)


def print_federated_verdicts() -> None:
    """Print one row per task and average: is PDG better than PDM, Rand and Orth?"""
    rows = []
    for name, parts in _FEDERATED.items():
        claims = EXPERIMENTS[name].claims(result(name))
        for words, label in parts.items():
            for average in ("exact average", "published average"):
                cells = []
                for kind in _FEDERATED_CLAIMS:
                    found = [
                        str(claim.verdict)
                        for reading in _READINGS
                        for claim in claims
                        if kind in claim.claim
                        and average in claim.claim
                        and label in claim.claim
                        and reading in claim.claim
                    ]
                    cells.append(_joined(found) if len(found) > 1 else f"– / {found[0]}")
                rows.append([words, average, *cells, f"[{name}](results/{name}.png)"])
    columns = ["data", "average", "lower final error", "fewer rounds", "steadier", "figure"]
    print_table(columns, rows, numbers=False)


def print_results() -> None:
    """Print every figure with its caption, the verdicts on its claims, and what was measured."""
    for name, experiment in EXPERIMENTS.items():
        print(f"\n## {experiment.title}\n\n![{experiment.title}]({name}.png)\n")
        print(f"{experiment.caption}\n")
        print(f"`feduplink reproduce {name}`, numbers: [{name}.csv]({name}.csv)")
        claims = experiment.claims(result(name))
        for claim in claims:
            print(f"\n**{str(claim.verdict).capitalize()}**: {claim.claim}.")
            print(f"\nMeasured: {claim.measured}.")
