"""Policies learned with 8 workers in cells of other sizes."""

from __future__ import annotations

import numpy as np

from feduplink.experiments.cell_sweep import Sweep
from feduplink.experiments.claims import judged, lower
from feduplink.experiments.compared_policies import COMPARED, LEARNED, POLICIES_VERSION, policy_for
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.judged_settings import (
    SETTINGS_VERSION,
    Setting,
    in_rows,
    judged_policies,
)
from feduplink.reporting.style import OPTIMUM
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim

TITLE = "Network size"
DATA = None
VERSION = 1
CAPTION = (
    "Cells of 6 to 32 workers. pdm and pdg are learned with 8 workers; pdm takes no other number. "
    "There are no thresholds for other sizes, so nobody is constrained and rand and orth silence "
    "nobody in either reading. Bars: from the worst to the best seed."
)
RESULT = Sweep

_WORKERS = (6, 8, 16, 24, 32)


def run(context: ExperimentContext) -> Sweep:
    """Judge the policies at each size."""
    context.map(_learn, [(seed,) for seed in context.seeds], "policies")  # which all sizes share
    grid = [(workers, seed) for workers in _WORKERS for seed in context.seeds]
    settings = context.map(_judged, grid, "networks")
    rows = in_rows(settings, len(context.seeds))
    return Sweep.from_settings("workers", _WORKERS, rows, logarithmic=True)


def _learn(context: ExperimentContext, seed: int) -> None:
    for name in LEARNED:
        policy_for(context, name, Scenario(), seed)


def _judged(context: ExperimentContext, workers: int, seed: int) -> Setting:
    scenario, learned = Scenario(workers=workers, rate_min=0.0, ee_min=0.0), Scenario()

    def make() -> Setting:
        policies = {
            name: policy_for(context, name, learned if name in LEARNED else scenario, seed)
            for name in COMPARED
            if ":" not in name and (name != "pdm" or workers == learned.workers)
        }
        return judged_policies(context, policies, scenario, seed)

    versions = (POLICIES_VERSION, SETTINGS_VERSION, VERSION)
    return context.cached(Setting, make, "sizes", versions, scenario.model_dump(mode="json"), seed)


def claims(sweep: Sweep) -> list[Claim]:
    """PDG better than Rand and Orth at every size, and losing less."""
    shown = ("rand", "orth", "pdg", "openloop", "pdx", OPTIMUM)
    at_8, last = _WORKERS.index(8), len(_WORKERS) - 1

    def lost(name: str) -> list[float]:
        """From 8 to 32 workers, seed by seed."""
        start, end = (sweep.losses(name, place, "objective") for place in (at_8, last))
        return [after - before for before, after in zip(start, end, strict=True)]

    return [
        judged(
            "Trained with 8 workers, PDG has a lower weighted PER than Rand and Orth at every size",
            [b for two in ("rand", "orth") for b in sweep.ahead("pdg", two, "weighted_per")],
            sweep.in_words(shown, "weighted_per"),
        ),
        judged(
            "From 8 to 32 workers PDG loses less than Rand and Orth",
            [lower(lost("pdg"), lost(name)) for name in ("rand", "orth")],
            ", ".join(f"{name} −{np.mean(lost(name)):.3f}" for name in shown),
        ),
    ]
