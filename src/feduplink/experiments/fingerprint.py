"""The code that kept results depend on, for :func:`feduplink.code_fingerprint.code_fingerprint`."""

from __future__ import annotations

#: What policies, and how they are judged, depend on: modules or packages by their path without
#: suffix, relative to the package.
POLICIES = (
    "constraint_text",
    "scenario",
    "scenarios",
    "randomness",
    "channels",
    "link",
    "utility",
    "problem",
    "proofs",
    "feasibility",
    "judgement",
    "lagrangian",
    "policies",
    "evaluation",
    "comparison",
    "learning",
    "optimum",
    "schedule",
    "hdf5_file",
    "yaml_text",
    "process_pool",
    "experiments/compared_policies",
)
SETTINGS = (*POLICIES, "experiments/judged_settings")
FEDERATIONS = (
    *POLICIES,
    "federated",
    "experiments/federations",
    "experiments/compared_schedules",
)
#: What results of all figures depend on besides the figure's own module.
RESULTS = (
    *SETTINGS,
    "federated",
    *(
        f"experiments/{name}"
        for name in ("federations", "compared_schedules", "iid", "cell_sweep", "learning_costs")
    ),
)
