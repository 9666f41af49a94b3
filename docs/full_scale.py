"""Results at full scale, for the tables and numbers in the documentation.

The pages have blocks like this one, which ``make numbers`` runs and ``make lint`` checks::

    <!-- [[[cog
    from full_scale import result
    error = result("mnist").final_error("exact average", "ideal")
    print(f"Without a lossy uplink the final error is {error:.3f}.")
    ]]] -->
    Without a lossy uplink the final error is 0.098.
    <!-- [[[end]]] -->
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from feduplink.experiments import EXPERIMENTS

RESULTS = Path(__file__).parent / "results"


@cache
def result(name: str) -> Any:
    """Return the result of the experiment ``name``."""
    return EXPERIMENTS[name].load(RESULTS)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table; numbers are aligned to the right if a column name ends in a colon."""
    print()
    print(f"| {' | '.join(column.removesuffix(':') for column in columns)} |")
    print(f"| {' | '.join('---:' if c.endswith(':') else '---' for c in columns)} |")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    print()


def print_results() -> None:
    """Print every figure with its caption and the verdicts on its claims."""
    for name, experiment in EXPERIMENTS.items():
        if not (RESULTS / f"{name}.json").is_file():
            continue
        print(f"\n## {experiment.title}\n\n![{experiment.title}]({name}.png)\n")
        print(f"{experiment.caption}\n")
        print(f"`feduplink reproduce {name}`, numbers: [{name}.csv]({name}.csv)")
        claims = experiment.claims(result(name))
        if claims:
            rows = [(claim.verdict, claim.claim, claim.measured) for claim in claims]
            print_table(("verdict", "claim", "measured"), rows)
