"""What the figures of the three i.i.d. tasks have in common."""

from __future__ import annotations

from collections.abc import Mapping

from feduplink.experiments.bench import Bench
from feduplink.experiments.claims import Claim, judged
from feduplink.experiments.federations import PAPERS, Comparison, Federations, Kind, federation

EXACT, PUBLISHED = "exact average", "published average"
CAPTION = (
    "Error of the global model after every round; mean over the runs, shaded from the best to the "
    "worst. Left: the average the paper states, over the workers that arrive; rand and orth "
    "silence workers as its text says. Right: the average of its published code, which drops "
    "the last arrival and multiplies a single one by its number of samples; nobody is silenced."
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


def iid_claims(result: Federations, papers: Mapping[str, float]) -> list[Claim]:
    """The paper's order of policies under each average, and its values under the published one."""
    found = [
        pdg_ahead(f"FL with PDG outperforms PDM, Rand and Orth ({label})", result, label)
        for label in result.comparisons
    ]
    if PUBLISHED in result.comparisons:
        found.append(near_paper(result, PUBLISHED, papers))
    return found


def pdg_ahead(claim: str, result: Federations, label: str) -> Claim:
    """A claim that PDG ends with a smaller error than the paper's other policies."""
    final = {name: result.final(label, name) for name in PAPERS}
    return judged(
        claim,
        [final["pdg"] < final[name] for name in ("pdm", "rand", "orth")],
        result.told(label, tuple(result.comparisons[label].policies)),
    )


def near_paper(
    result: Federations, label: str, papers: Mapping[str, float], about: str = ""
) -> Claim:
    """The claim that the published average gives the paper's errors, ``about`` some of the data."""
    final = {name: result.final(label, name) for name in papers}
    return judged(
        f"With the published average the paper's final errors come out (within {_NEAR:g}×{about})",
        [paper / _NEAR <= final[name] <= paper * _NEAR for name, paper in papers.items()],
        ", ".join(f"{n} {final[n]:.3g} (paper {p:.3g})" for n, p in papers.items()),
    )
