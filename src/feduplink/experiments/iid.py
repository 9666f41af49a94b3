"""What the figures of the three i.i.d. tasks have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from feduplink.experiments.bench import Bench
from feduplink.experiments.claims import Claim, difference, judged, lower
from feduplink.experiments.federations import PAPERS, Comparison, Federations, Kind, federation

EXACT, PUBLISHED = "exact average", "published average"
CAPTION = (
    "Error of the global model after every round; mean over the runs, shaded its standard error. "
    "Below: final errors less that of ideal, run by run. Left: the average the paper states, over "
    "the workers that arrive; rand and orth silence workers as its text says. Right: the average "
    "of its published code, which drops the last arrival and multiplies a single one by its "
    "number of samples; nobody is silenced."
)
#: A final error within this factor of the paper's counts as reproduced.
_NEAR = 1.25


def both_averages(bench: Bench, kind: Kind, runs: int) -> Federations:
    """All policies with the stated average, the paper's with the published one."""
    return Federations(
        comparisons={
            EXACT: federation(bench, Comparison(kind, runs)),
            PUBLISHED: federation(bench, Comparison.published(kind, runs)),
        }
    )


@dataclass(frozen=True)
class PaperErrors:
    """What the paper's notebooks end with.

    Attributes:
        task: on which data,
        rounds: after how many rounds,
        errors: and with which final error, by policy.
    """

    task: str
    rounds: int
    errors: Mapping[str, float]


def iid_claims(result: Federations, papers: PaperErrors) -> list[Claim]:
    """The paper's order of policies under each average, and its values under the published one."""
    return [
        *(
            pdg_ahead(f"FL with PDG outperforms PDM, Rand and Orth ({label})", result, label)
            for label in (EXACT, PUBLISHED)
        ),
        *near_paper(result, PUBLISHED, papers),
    ]


def pdg_ahead(claim: str, result: Federations, label: str) -> Claim:
    """A claim that PDG ends with a smaller error than the paper's other policies, run by run."""
    history = result.comparisons[label]
    final = {name: history.final_errors(name) for name in PAPERS}
    return judged(
        claim,
        [lower(final["pdg"], final[name]) for name in ("pdm", "rand", "orth")],
        f"{result.told(label, tuple(history.policies))}; pdg − pdm "
        + difference(final["pdg"], final["pdm"]),
    )


def near_paper(
    result: Federations, label: str, papers: PaperErrors, about: str = ""
) -> list[Claim]:
    """The claim that the published average gives the paper's errors, ``about`` some of the data.

    None for other data or fewer rounds than the paper's.
    """
    history = result.comparisons[label]
    if (history.task, history.rounds) != (papers.task, papers.rounds):
        return []
    final = {name: result.final(label, name) for name in papers.errors}
    return [
        judged(
            "With the published average the paper's final errors come out "
            f"(within {_NEAR:g}×{about})",
            [
                paper / _NEAR <= final[name] <= paper * _NEAR
                for name, paper in papers.errors.items()
            ],
            ", ".join(f"{n} {final[n]:.3g} (paper {p:.3g})" for n, p in papers.errors.items()),
        )
    ]
