"""How far every policy is from what is proved to be out of reach, at every setting."""

from __future__ import annotations

from statistics import fmean

from pydantic import BaseModel

from feduplink.channels import make_channels
from feduplink.experiments.cell_sweep import Sweep, figures_by_policy
from feduplink.experiments.claims import judged
from feduplink.experiments.compared_policies import POLICIES_VERSION
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.judged_settings import SETTINGS_VERSION, Figures, judged_settings
from feduplink.experiments.table import csv_rows, csv_text
from feduplink.optimum import find_optimum
from feduplink.reporting.style import OPTIMUM
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim

TITLE = "Distance to the optimum"
DATA = None
VERSION = 1
CAPTION = (
    "How far every policy is below the optimum of the same test channels, mean over the seeds and "
    "their range. The optimum meets the constraints on these very channels, and so does every "
    "policy here: where it falls short on them, as one that meets the constraints of the "
    "distribution will by chance, it is silenced in the few rounds that make up for it. A policy "
    "that is shown to miss a constraint has no distance. The bar is what the certificate leaves "
    "open: no policy that meets the constraints gets to its left."
)

#: In the order of the figure.
SCENARIOS = (
    "default",
    "interference-x2",
    "interference-x4",
    "interference-x8",
    "pmax-minus-40dbw",
    "pmax-minus-30dbw",
    "pmax-minus-10dbw",
    "pmax-0dbw",
)
#: Columns of the CSV file: what the certificate of the first seed found, and its bound.
_PROOF = ("proved_objective", "upper_bound")


class OptimalityGap(BaseModel):
    """All settings, and the certificate of each for the first seed."""

    scenarios: list[str]
    sweep: Sweep
    optimum: list[float]
    upper_bound: list[float]

    def distances(self, policy: str, place: int) -> list[float] | None:
        """Optimum less what the repaired policy reaches, with every seed; never negative.

        None for a policy that is shown to miss a constraint at this setting.
        """
        if self.sweep.feasible(policy, place) is False:
            return None
        best = self.sweep.seeds(OPTIMUM, place, "objective")
        reached = self.sweep.seeds(policy, place, "repaired_objective")
        return [one - other for one, other in zip(best, reached, strict=True)]

    def to_csv(self) -> str:
        """One row per setting, policy and run; every run has a seed of its own."""
        rows = (
            [
                scenario,
                name,
                run,
                *figures.model_dump().values(),
                *((self.optimum[place], self.upper_bound[place]) if run == 0 else (None, None)),
            ]
            for place, scenario in enumerate(self.scenarios)
            for name, by_setting in self.sweep.policies.items()
            for run, figures in enumerate(by_setting[place])
        )
        return csv_text(["scenario", "policy", "run", *Figures.model_fields, *_PROOF], rows)

    @classmethod
    def from_csv(cls, text: str) -> OptimalityGap:
        """What :meth:`to_csv` wrote."""
        rows = csv_rows(text, ["scenario", "policy", "run", *Figures.model_fields, *_PROOF])
        scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
        proofs = {row["scenario"]: row for row in rows if row["run"] == "0"}
        return cls(
            scenarios=scenarios,
            sweep=Sweep(
                parameter="setting",
                values=[float(place) for place in range(len(scenarios))],
                logarithmic=False,
                policies=figures_by_policy(rows, "scenario", scenarios),
            ),
            optimum=[float(proofs[name][_PROOF[0]]) for name in scenarios],
            upper_bound=[float(proofs[name][_PROOF[1]]) for name in scenarios],
        )


RESULT = OptimalityGap


class _Proof(BaseModel):
    objective: float
    upper_bound: float


def run(context: ExperimentContext) -> OptimalityGap:
    """Judge all policies at every setting and certify the optimum of the first seed."""
    scenarios = {name: Scenario.load(name) for name in SCENARIOS}
    settings = judged_settings(context, scenarios)
    proofs = context.map(_proved, [(name,) for name in SCENARIOS], "certificates")
    places = [float(place) for place in range(len(SCENARIOS))]
    return OptimalityGap(
        scenarios=list(SCENARIOS),
        sweep=Sweep.from_settings("setting", places, settings),
        # The certificate searches on and may find more; a policy may have as well.
        optimum=[
            max(proof.objective, row[0].policies[OPTIMUM].objective)
            for proof, row in zip(proofs, settings, strict=True)
        ],
        upper_bound=[proof.upper_bound for proof in proofs],
    )


def _proved(context: ExperimentContext, name: str) -> _Proof:
    scenario = Scenario.load(name)

    def make() -> _Proof:
        csi = make_channels(scenario, context.scale.channels, seed=context.seed).test
        optimum = find_optimum(scenario, csi, budget_s=context.scale.proof_s)
        return _Proof(objective=optimum.objective, upper_bound=optimum.upper_bound)

    versions = (POLICIES_VERSION, SETTINGS_VERSION, VERSION)
    identity = (scenario.model_dump(mode="json"), context.seed)
    return context.cached(_Proof, make, "certificates", versions, *identity)


def claims(result: OptimalityGap) -> list[Claim]:
    """The paper's zero duality gap, its near-optimality, and ours."""
    gaps = [top - found for top, found in zip(result.upper_bound, result.optimum, strict=True)]

    def means(name: str) -> list[float | None]:
        rows = [result.distances(name, place) for place in range(len(result.scenarios))]
        return [None if row is None else fmean(row) for row in rows]

    def near(name: str, most: float) -> list[bool]:
        return [distance is not None and distance <= most for distance in means(name)]

    def in_words(name: str) -> str:
        distances = (
            "missed" if distance is None else f"{distance:.3f}" for distance in means(name)
        )
        return f"{name} {', '.join(distances)}"

    return [
        judged(
            "The problem has no duality gap (theorem 1): a policy that meets the constraints "
            "reaches the dual bound",
            [gap <= 0.02 for gap in gaps],
            "proved gaps at the eight settings: " + ", ".join(f"{gap:.4f}" for gap in gaps),
        ),
        judged(
            "PDG is close to optimal (within 0.05 of the optimum once it meets the constraints of "
            "the test channels, no constraint shown to be missed)",
            near("pdg", 0.05),
            "; ".join(in_words(name) for name in ("pdm", "pdg", "openloop")),
        ),
        judged(
            "(ours) dual and pdx are within 0.01 of the optimum at every setting once they meet "
            "the constraints of the test channels, and not shown to miss one",
            [*near("dual", 0.01), *near("pdx", 0.01)],
            "; ".join(in_words(name) for name in ("dual", "pdx")),
        ),
    ]
