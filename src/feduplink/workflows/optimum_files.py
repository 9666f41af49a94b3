"""What the search for the optimum leaves in its directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from feduplink import link
from feduplink.judgement import Judgement
from feduplink.optimum import DistributionBound, Optimum
from feduplink.policies import DualPolicy, save_policy
from feduplink.progress import track
from feduplink.reporting.comparison import comparison_markdown
from feduplink.reporting.optimum import plot_duality
from feduplink.reporting.style import save_figure
from feduplink.storage.files import write_text
from feduplink.storage.hdf5 import writing_hdf5
from feduplink.storage.run_directory import write_metrics
from feduplink.workflows.evaluation import Outcome


@track("writing tables and figures", transient=True)
def write_optimum(
    directory: Path,
    optimum: Optimum,
    policy: DualPolicy,
    outcomes: Mapping[str, Outcome],
    distribution: DistributionBound | None = None,
    *,
    notes: Sequence[str] = (),
    **further: Any,
) -> None:
    """Write the allocations, the plot, the table, the policy and ``metrics.json``.

    Args:
        directory: where to.
        optimum: what was found, on which channels.
        policy: the ``dual`` policy at its multipliers.
        outcomes: how policies do on the same channels.
        distribution: the statement for the distribution, if one was asked for.
        notes: what stands under the table.
        further: more entries of ``metrics.json``.
    """
    _write_allocations(directory / "allocations.h5", optimum)
    save_figure(directory / "duality.png", plot_duality(optimum))
    save_policy(policy, directory)
    judgements = {name: outcome.judgement for name, outcome in outcomes.items()}
    table = comparison_markdown(judgements, optimum.scenario, optimum, notes)
    write_text(directory / "comparison.md", table)
    write_metrics(
        directory,
        {
            "title": "The optimum, with proof",
            "scenario": optimum.scenario.model_dump(mode="json"),
            "policies": {name: outcome.as_metrics() for name, outcome in outcomes.items()},
            **optimum_metrics(optimum, judgements),
            **({"distribution": distribution.as_metrics()} if distribution else {}),
            **further,
        },
    )


def optimum_metrics(optimum: Optimum, judgements: Mapping[str, Judgement]) -> dict[str, Any]:
    """The entries ``optimum`` and ``below_optimum`` of ``metrics.json``.

    The latter is null for a policy that misses a constraint on these channels.
    """
    return {
        "optimum": optimum.as_metrics(),
        "below_optimum": {name: optimum.below(row) for name, row in judgements.items()},
    }


def _write_allocations(path: Path, optimum: Optimum) -> None:
    """Write the powers, the value and the bound of every channel as HDF5."""
    scenario = optimum.scenario
    with writing_hdf5(path) as file:
        power = file.create_dataset("power", data=optimum.power.cpu().numpy())
        power.attrs["description"] = "transmit powers of the best policy found, (N, L), W"
        objective = file.create_dataset("objective", data=_channel_objective(optimum).cpu().numpy())
        objective.attrs["description"] = (
            f"sum over workers of weight times {optimum.problem.objective.name} at these powers, "
            "(N,)"
        )
        upper = file.create_dataset("upper_bound", data=optimum.certificate.upper.cpu().numpy())
        upper.attrs["description"] = (
            "no powers give this channel a larger Lagrangian at the multipliers of metrics.json, "
            "(N,). Without constraints (thresholds 0) the Lagrangian is the objective, and this "
            "bounds the objective of the channel. With constraints it is their mean, plus "
            "'offset', that bounds the objective of every policy that meets the constraints (the "
            "bound of metrics.json, unless nobody could reach that much even without "
            "interference); in a single channel a policy may exceed it and pay in another."
        )
        upper.attrs["offset"] = optimum.solution.constant
        file.attrs["scenario"] = scenario.to_yaml()


def _channel_objective(optimum: Optimum) -> Tensor:
    """Σ_i ω_i f_i of the best powers in every channel, (N,)."""
    power, csi = optimum.power, optimum.csi.to(optimum.power)
    values = optimum.problem.objective.value(link.sinr(csi, power), power)
    return (optimum.problem.utility.weights.to(values) * values).sum(-1)
