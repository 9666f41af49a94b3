"""Federated classification of movie reviews."""

from __future__ import annotations

from feduplink.experiments.bench import Bench
from feduplink.experiments.claims import Claim
from feduplink.experiments.federations import ON_REVIEWS, REVIEWS_PUBLISHED, Federations
from feduplink.experiments.iid import CAPTION as CAPTION
from feduplink.experiments.iid import PaperErrors, both_averages, iid_claims

TITLE = "Movie reviews"
DATA = "imdb"
RESULT = Federations

#: Error rates in the authors' notebooks after 50 rounds.
_PAPERS = PaperErrors(
    "imdb",
    50,
    {"ideal": 0.14, "pdg": 0.18, "pdm": 0.27, "rand:unselected": 0.48, "orth:unselected": 0.48},
)


def run(bench: Bench) -> Federations:
    """Both averages."""
    return both_averages(
        bench,
        "reviews",
        bench.scale.text_runs,
        exact=ON_REVIEWS,
        published=REVIEWS_PUBLISHED,
    )


def claims(result: Federations) -> list[Claim]:
    """The paper's order and values."""
    return iid_claims(result, _PAPERS)
