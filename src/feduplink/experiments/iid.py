"""What the figures of the three i.i.d. tasks have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from feduplink.experiments.claims import difference, judged, lower, mean_in_words
from feduplink.experiments.compared_policies import COMPARED, READINGS
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.federations import (
    ALL,
    LEARNED_AT,
    PAPERS,
    Comparison,
    Federations,
    Kind,
    federation,
)
from feduplink.federated import AccessScheme, RunHistory
from feduplink.policies import Policy
from feduplink.storage.run_directory import Claim

EXACT, PUBLISHED = "exact average", "published average"
CAPTION = (
    "Error of the global model after every round; mean over the runs, shaded its standard error. "
    "Below: final errors less that of ideal, run by run. Left: the average the paper states, over "
    "the workers that arrive. Right: the average of its published code, which drops the last "
    "arrival and multiplies a single one by its number of samples. rand and orth silence workers "
    "as its text says; :unselected silence nobody, as its code does."
)
#: A final error within this factor of the paper's counts as reproduced.
_NEAR = 1.25


def both_averages(
    context: ExperimentContext,
    kind: Kind,
    runs: int,
    *,
    exact: tuple[str, ...] = ALL,
    published: tuple[str, ...] = PAPERS,
) -> Federations:
    """All policies with the stated average, the paper's with the published one.

    Orthogonal access and full power, which are run too, belong to the figure of time and energy.
    """
    found = federation(context, Comparison(kind, runs, exact))
    return Federations(
        comparisons={
            EXACT: found.only(name for name in exact if name in ("ideal", *COMPARED)),
            PUBLISHED: federation(
                context, Comparison(kind, runs, published, aggregation="published")
            ),
        }
    )


@dataclass(frozen=True)
class PaperErrors:
    """What the paper's notebooks end with.

    Attributes:
        task: on which data,
        rounds: after how many rounds,
        errors: and with which final error.
    """

    task: str
    rounds: int
    errors: Mapping[type[Policy] | type[AccessScheme], float]

    @property
    def by_name(self) -> dict[str, float]:
        """The final errors by the names of the policies."""
        return {kind.name: error for kind, error in self.errors.items()}


def iid_claims(result: Federations, papers: PaperErrors) -> list[Claim]:
    """The paper's order of policies under each average, and its values under the published one."""
    return [
        *(claim for label in (EXACT, PUBLISHED) for claim in pdg_ahead(result, label)),
        *near_paper(result, PUBLISHED, papers),
    ]


def pdg_ahead(result: Federations, label: str) -> list[Claim]:
    """That PDG beats the paper's other policies, run by run, in each reading of Rand and Orth.

    In the final error, in the rounds until the model has learned (:data:`LEARNED_AT`), and in how
    much the error changes from one round to the next in the second half.
    """
    history = result.comparisons[label]
    target = LEARNED_AT * history.final_error("ideal")
    measures: dict[str, tuple[str, Callable[[str], list[float]]]] = {
        "ends with a lower error": ("final error", history.final_errors),
        f"gets sooner to {LEARNED_AT:g} times the final error of ideal FL": (
            "rounds",
            lambda name: history.costs_to(name, target, "rounds"),
        ),
        "learns more steadily (smaller changes between rounds)": (
            "deviation of the changes",
            lambda name: [_unsteadiness(run) for run in history.policies[name]],
        ),
    }
    found = []
    for reading, baselines in READINGS.items():
        others = [name for name in ("pdm", *baselines) if name in history.policies]
        if len(others) < 3:
            continue
        for better, (what, values) in measures.items():
            by_policy = {name: values(name) for name in ("ideal", "pdg", *others)}
            found.append(
                judged(
                    f"FL with PDG {better} than with PDM, Rand and Orth ({label}; {reading})",
                    [lower(by_policy["pdg"], by_policy[name]) for name in others],
                    f"{what}: "
                    + ", ".join(f"{name} {mean_in_words(v)}" for name, v in by_policy.items())
                    + f"; pdg − pdm {difference(by_policy['pdg'], by_policy['pdm'])}",
                )
            )
    return found


def _unsteadiness(run: RunHistory) -> float:
    """Standard deviation of the error's change between rounds, in the second half of a run."""
    second_half = run.error[len(run.error) // 2 :]
    with np.errstate(invalid="ignore"):  # infinite errors of models that diverge
        return float(np.std(np.diff(second_half)))


def near_paper(
    result: Federations, label: str, papers: PaperErrors, about: str = ""
) -> list[Claim]:
    """The claim that the published average gives the paper's errors, ``about`` some of the data.

    None for other data or fewer rounds than the paper's.
    """
    history = result.comparisons[label]
    if (history.task, history.rounds) != (papers.task, papers.rounds):
        return []
    final = {name: result.final(label, name) for name in papers.by_name}
    return [
        judged(
            "With the published average the paper's final errors come out "
            f"(within {_NEAR:g}×{about})",
            [
                paper / _NEAR <= final[name] <= paper * _NEAR
                for name, paper in papers.by_name.items()
            ],
            ", ".join(f"{n} {final[n]:.3g} (paper {p:.3g})" for n, p in papers.by_name.items()),
        )
    ]
