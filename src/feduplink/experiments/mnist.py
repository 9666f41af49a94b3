"""Federated classification of handwritten digits."""

from __future__ import annotations

from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import Federations
from feduplink.experiments.iid import CAPTION as CAPTION
from feduplink.experiments.iid import PaperErrors, both_averages, iid_claims
from feduplink.federated import Ideal
from feduplink.policies import UnselectedOrthogonal, UnselectedRandomPower
from feduplink.storage.run_directory import Claim

TITLE = "Handwritten digits"
DATA = "mnist"
VERSION = 1
RESULT = Federations

#: Final errors that the authors' code gives (100 rounds, three runs).
_PAPERS = PaperErrors(
    "mnist", 100, {Ideal: 0.135, UnselectedRandomPower: 0.290, UnselectedOrthogonal: 0.295}
)


def run(context: ExperimentContext) -> Federations:
    """Both averages."""
    return both_averages(context, "images", context.scale.runs)


def claims(result: Federations) -> list[Claim]:
    """The paper's order and values."""
    return iid_claims(result, _PAPERS)
