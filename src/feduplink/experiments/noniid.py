"""Federated classification of digits whose quality or labels differ between workers."""

from __future__ import annotations

from collections.abc import Mapping

from feduplink.experiments.compared_policies import COMPARED
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import PAPERS, Comparison, Federations, federation
from feduplink.experiments.iid import EXACT, PUBLISHED, PaperErrors, near_paper, pdg_ahead
from feduplink.federated import Ideal
from feduplink.policies import (
    GraphPolicy,
    PerceptronPolicy,
    UnselectedOrthogonal,
    UnselectedRandomPower,
)
from feduplink.settings import Partition
from feduplink.storage.run_directory import Claim

TITLE = "Digits that differ between workers"
DATA = "mnist"
VERSION = 1
CAPTION = (
    "Final error (last ten rounds) with pixel noise that differs between workers (Gaussian, "
    "weights by data quality) and with skewed labels (Dirichlet, κ = 1); bars are means over the "
    "runs, dots the runs."
)
RESULT = Federations

#: Final errors in the authors' notebooks.
_PAPERS: Mapping[Partition, PaperErrors] = {
    "gaussian": PaperErrors(
        "mnist",
        100,
        {
            Ideal: 0.143,
            GraphPolicy: 0.161,
            PerceptronPolicy: 0.195,
            UnselectedRandomPower: 0.216,
            UnselectedOrthogonal: 0.252,
        },
    ),
    "dirichlet": PaperErrors(
        "mnist",
        100,
        {
            Ideal: 0.153,
            GraphPolicy: 0.184,
            PerceptronPolicy: 0.281,
            UnselectedRandomPower: 0.304,
            UnselectedOrthogonal: 0.317,
        },
    ),
}


def run(context: ExperimentContext) -> Federations:
    """Both kinds of difference, both averages."""
    runs = context.scale.noniid_runs
    found = {}
    for partition in _PAPERS:
        exact = federation(context, Comparison("images", runs, partition=partition))
        found[f"{partition}, {EXACT}"] = exact.only(("ideal", *COMPARED))
        published = Comparison("images", runs, PAPERS, partition, "published")
        found[f"{partition}, {PUBLISHED}"] = federation(context, published)
    return Federations(comparisons=found)


def claims(result: Federations) -> list[Claim]:
    """PDG best under both differences, and the paper's values."""
    found = []
    for partition, papers in _PAPERS.items():
        for average in (EXACT, PUBLISHED):
            found += pdg_ahead(result, f"{partition}, {average}")
        found += near_paper(result, f"{partition}, {PUBLISHED}", papers, f"; {partition}")
    return found
