"""What a federated model of movie reviews costs: error against seconds on the air and joules."""

from __future__ import annotations

from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import ON_OTHER_DATA, Comparison, Federations, federation
from feduplink.experiments.learning_costs import AXES, learning_claims
from feduplink.storage.run_directory import Claim

TITLE = "Time and energy on reviews"
DATA = "imdb"
VERSION = 1
CAPTION = f"Movie reviews with the stated average: {AXES}"
RESULT = Federations


def run(context: ExperimentContext) -> Federations:
    """One comparison of policies and schedules."""
    comparison = Comparison("reviews", context.scale.text_runs, ON_OTHER_DATA)
    return Federations(comparisons={"reviews": federation(context, comparison)})


def claims(result: Federations) -> list[Claim]:
    """What it takes to learn."""
    return learning_claims(result)
