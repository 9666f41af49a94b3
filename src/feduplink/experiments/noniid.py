"""Federated classification of digits whose quality or labels differ between workers."""

from __future__ import annotations

from collections.abc import Mapping

from feduplink.experiments.bench import Bench
from feduplink.experiments.claims import Claim, judged
from feduplink.experiments.federations import PAPERS, Comparison, Federations, federation
from feduplink.experiments.iid import EXACT, PUBLISHED
from feduplink.federated import Partition

TITLE = "Digits that differ between workers"
CAPTION = (
    "Final error (last ten rounds) with pixel noise that differs between workers (Gaussian, "
    "weights by data quality) and with skewed labels (Dirichlet, κ = 1); bars are means over the "
    "runs, dots the runs."
)
RESULT = Federations

#: Final errors in the authors' notebooks.
_PAPERS: Mapping[Partition, Mapping[str, float]] = {
    "gaussian": {"ideal": 0.143, "pdg": 0.161, "pdm": 0.195, "rand": 0.216, "orth": 0.252},
    "dirichlet": {"ideal": 0.153, "pdg": 0.184, "pdm": 0.281, "rand": 0.304, "orth": 0.317},
}
_NEAR = 1.25


def run(bench: Bench) -> Federations:
    """Both kinds of difference, both averages."""
    runs = bench.scale.noniid_runs
    found = {}
    for partition in _PAPERS:
        exact = Comparison("images", runs, partition=partition)
        found[f"{partition}, {EXACT}"] = federation(bench, exact)
        published = Comparison.published("images", runs, partition)
        found[f"{partition}, {PUBLISHED}"] = federation(bench, published)
    return Federations(comparisons=found)


def claims(result: Federations) -> list[Claim]:
    """PDG best under both differences."""
    found = []
    for partition, papers in _PAPERS.items():
        for average in (EXACT, PUBLISHED):
            label = f"{partition}, {average}"
            final = {name: result.final(label, name) for name in PAPERS}
            found.append(
                judged(
                    f"PDG gives more accurate models than PDM, Rand and Orth ({label})",
                    [final["pdg"] < final[name] for name in ("pdm", "rand", "orth")],
                    result.told(label, tuple(result.comparisons[label].policies)),
                )
            )
        found.append(
            judged(
                f"With the published average the paper's final errors come out (within {_NEAR:g}×; "
                f"{partition})",
                [papers[n] / _NEAR <= final[n] <= papers[n] * _NEAR for n in papers],
                ", ".join(f"{n} {final[n]:.3f} (paper {papers[n]:.3f})" for n in papers),
            )
        )
    return found
