"""How fast and how steadily pdg and pdm converge, from the epochs of the figure ``convergence``.

    python benchmarks/convergence_speed.py [docs/results/convergence.csv]

Per policy, mean ± standard deviation over the seeds: the first epoch that is within 1 % of the best
epoch's objective with no constraint missed by more than 1 %; the best epoch's objective; the share
of the epochs after the first one in which no constraint is missed by more than 1 %.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from feduplink.judgement import TOLERANCE

Epochs = list[tuple[float, float]]


def figures(epochs: Epochs) -> tuple[float, float, float]:
    """First good epoch, best objective, share of feasible epochs from there on."""
    best = max(epochs, key=lambda epoch: (epoch[1] == 0, epoch[0] if epoch[1] == 0 else -epoch[1]))
    feasible = [violation <= TOLERANCE for _, violation in epochs]
    first = next(
        number
        for number, (objective, _) in enumerate(epochs)
        if objective >= 0.99 * best[0] and feasible[number]
    )
    return first + 1, best[0], statistics.mean(feasible[first:])


def main(path: Path) -> None:
    runs: dict[str, dict[str, Epochs]] = defaultdict(lambda: defaultdict(list))
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            figures_of = float(row["objective"]), float(row["violation"])
            runs[row["policy"]][row["run"]].append(figures_of)
    print("| policy | seeds | epochs to within 1 % | best objective | feasible from there on |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for policy, seeds in runs.items():
        columns = list(zip(*map(figures, seeds.values()), strict=True))
        first, best, share = (
            f"{statistics.mean(c):.{d}f} ± {statistics.stdev(c):.{d}f}"
            for c, d in zip(columns, (0, 3, 2), strict=True)
        )
        print(f"| `{policy}` | {len(seeds)} | {first} | {best} | {share} |")


if __name__ == "__main__":
    main(Path(*sys.argv[1:] or ["docs/results/convergence.csv"]))
