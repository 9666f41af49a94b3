"""Federated classification of movie reviews."""

from __future__ import annotations

from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import ON_REVIEWS, REVIEWS_PUBLISHED, Federations
from feduplink.experiments.iid import CAPTION as CAPTION
from feduplink.experiments.iid import PaperErrors, both_averages, iid_claims
from feduplink.federated import Ideal
from feduplink.policies import (
    GraphPolicy,
    PerceptronPolicy,
    UnselectedOrthogonal,
    UnselectedRandomPower,
)
from feduplink.storage.run_directory import Claim

TITLE = "Movie reviews"
DATA = "imdb"
VERSION = 1
RESULT = Federations

#: Error rates in the authors' notebooks after 50 rounds.
_PAPERS = PaperErrors(
    "imdb",
    50,
    {
        Ideal: 0.14,
        GraphPolicy: 0.18,
        PerceptronPolicy: 0.27,
        UnselectedRandomPower: 0.48,
        UnselectedOrthogonal: 0.48,
    },
)


def run(context: ExperimentContext) -> Federations:
    """Both averages."""
    return both_averages(
        context,
        "reviews",
        context.scale.text_runs,
        exact=ON_REVIEWS,
        published=REVIEWS_PUBLISHED,
    )


def claims(result: Federations) -> list[Claim]:
    """The paper's order and values."""
    return iid_claims(result, _PAPERS)
