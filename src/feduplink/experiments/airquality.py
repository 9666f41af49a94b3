"""Federated regression of air quality."""

from __future__ import annotations

from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import Federations
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

TITLE = "Air quality"
DATA = "airquality"
VERSION = 1
RESULT = Federations

#: Scaled RMSE in the authors' notebooks after 50 rounds.
_PAPERS = PaperErrors(
    "airquality",
    50,
    {
        Ideal: 0.083,
        GraphPolicy: 0.089,
        PerceptronPolicy: 0.16,
        UnselectedRandomPower: 0.29,
        UnselectedOrthogonal: 0.34,
    },
)


def run(context: ExperimentContext) -> Federations:
    """Both averages."""
    return both_averages(context, "airquality", context.scale.runs)


def claims(result: Federations) -> list[Claim]:
    """The paper's order and values."""
    return iid_claims(result, _PAPERS)
