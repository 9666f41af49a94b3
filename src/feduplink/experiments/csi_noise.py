"""Policies that see noisy estimates of the channels."""

from __future__ import annotations

from feduplink.channels import make_channels
from feduplink.evaluation import judge_policy
from feduplink.experiments.cell_sweep import Sweep
from feduplink.experiments.claims import judged, lower
from feduplink.experiments.compared_policies import LEARNED, READINGS, policies_for
from feduplink.experiments.experiment_context import ExperimentContext
from feduplink.experiments.judged_settings import Figures, Setting, judged_setting
from feduplink.policies import Policy, UnrolledPolicy
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import Claim

TITLE = "Noisy channel estimates"
DATA = None
VERSION = 1
CAPTION = (
    "Policies made for exact channels see estimates with white Gaussian noise; the true channels "
    "decide. pdx is told the variance; pdx:unaware is not. The optimum knows the channels. Marks: "
    "constraints on the test channels alone."
)
RESULT = Sweep

_VARIANCES = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)


def run(context: ExperimentContext) -> Sweep:
    """Judge the policies of the default setting at each variance."""
    by_seed = context.map(_judged, [(seed,) for seed in context.seeds], "seeds")
    rows = [[settings[place] for settings in by_seed] for place in range(len(_VARIANCES))]
    return Sweep.from_settings(
        "variance of the CSI noise (1/W²)", _VARIANCES, rows, logarithmic=True
    )


def _judged(context: ExperimentContext, seed: int) -> list[Setting]:
    clean = Scenario()
    optimum = judged_setting(context, clean, seed).policies["optimum"]
    csi = make_channels(clean, context.scale.channels, seed=seed).test
    settings = []
    for variance in _VARIANCES:
        policies = policies_for(context, clean, seed)  # anew: rand draws the same at every variance
        scenario = clean.replace(csi_noise=variance)
        shown: dict[str, Policy] = {
            **policies,
            "pdx": _knowing_noise(policies["pdx"], variance),
            "pdx:unaware": policies["pdx"],
        }
        found = {
            name: Figures.from_judgement(judge_policy(policy, csi, scenario, seed=seed))
            for name, policy in shown.items()
        }
        settings.append(Setting(policies={**found, "optimum": optimum}))
    return settings


def _knowing_noise(policy: Policy, variance: float) -> UnrolledPolicy:
    assert isinstance(policy, UnrolledPolicy)
    scenario = policy.scenario.replace(csi_noise=variance)
    return UnrolledPolicy(scenario, policy.network, policy.point)


def claims(sweep: Sweep) -> list[Claim]:
    """PDG better than PDM at every variance; Rand and Orth do not feel the noise."""
    last = len(_VARIANCES) - 1
    return [
        judged(
            "PDG has a lower weighted PER than PDM at every variance",
            sweep.ahead("pdg", "pdm", "weighted_per"),
            sweep.in_words(LEARNED, "weighted_per"),
        ),
        judged(
            "Both learned policies get worse with the noise",
            [
                lower(
                    sweep.losses(name, 0, "weighted_per"), sweep.losses(name, last, "weighted_per")
                )
                for name in LEARNED
            ],
            sweep.in_words((*LEARNED, "pdx"), "objective"),
        ),
        *(_unmoved(sweep, reading, names) for reading, names in READINGS.items()),
    ]


def _unmoved(sweep: Sweep, reading: str, names: tuple[str, ...]) -> Claim:
    means = {name: sweep.means(name, "objective") for name in names}
    spans = {name: max(values) - min(values) for name, values in means.items()}
    return judged(
        f"Rand and Orth do not feel the noise ({reading})",
        [span < 0.02 for span in spans.values()],
        "their objective changes by " + ", ".join(f"{s:.3f} ({n})" for n, s in spans.items()),
    )
