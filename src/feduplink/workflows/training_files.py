"""What a finished training run leaves in its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from feduplink.channels import Channels
from feduplink.policies import Policy, UnrolledPolicy, save_policy
from feduplink.progress import track
from feduplink.reporting.comparison import comparison_markdown, plot_power_histogram
from feduplink.reporting.style import save_figure
from feduplink.reporting.training import plot_convergence
from feduplink.storage.files import write_text
from feduplink.storage.run_directory import write_metrics
from feduplink.training import Training, best_epoch
from feduplink.workflows.evaluation import Outcome, compare


@track("writing tables and figures", transient=True)
def write_training(
    directory: Path, training: Training, channels: Channels, *, seed: int = 0
) -> Outcome:
    """Write policy, plots, table and ``metrics.json`` of a run; returns the test outcome."""
    policy = training.policy
    scenario, problem = policy.scenario, training.problem
    validation = compare({policy.name: policy}, channels.validation, scenario, problem, seed=seed)
    test = compare({policy.name: policy}, channels.test, scenario, problem, seed=seed)[policy.name]
    epochs = plot_convergence(training.history, problem, policy.name)
    save_figure(directory / "convergence.png", epochs)
    _write_policy(directory, policy, test, channels)
    write_metrics(
        directory,
        {
            **_made_with(policy, channels, seed),
            "settings": training.settings.model_dump(mode="json"),
            "architecture": policy.architecture.model_dump(mode="json"),
            "epochs": len(training.history),
            "best_epoch": best_epoch(training.history).number + 1,
            "validation": validation[policy.name].judgement.as_metrics(),
            "test": test.judgement.as_metrics(),
        },
    )
    return test


@track("writing tables and figures", transient=True)
def write_network_training(
    directory: Path,
    policy: UnrolledPolicy,
    channels: Channels,
    settings: dict[str, Any],
    *,
    seed: int = 0,
) -> Outcome:
    """The same for ``pdx``, whose network was trained with ``settings``; it has no epochs."""
    test = compare({policy.name: policy}, channels.test, policy.scenario, seed=seed)[policy.name]
    _write_policy(directory, policy, test, channels)
    write_metrics(
        directory,
        {
            **_made_with(policy, channels, seed),
            "settings": settings,
            "test": test.judgement.as_metrics(),
        },
    )
    return test


def _write_policy(directory: Path, policy: Policy, test: Outcome, channels: Channels) -> None:
    """The policy, how its powers on the test channels are spread, and how it is judged there."""
    save_policy(policy, directory)
    powers = plot_power_histogram({policy.name: test.power}, policy.scenario)
    save_figure(directory / "power-histogram.png", powers)
    judged = {policy.name: test.judgement}
    table = comparison_markdown(judged, policy.scenario, notes=channels.notes)
    write_text(directory / "comparison.md", table)


def _made_with(policy: Policy, channels: Channels, seed: int) -> dict[str, Any]:
    """What ``metrics.json`` says of policy, scenario and channels."""
    return {
        "title": f"Training of {policy.name}",
        "scenario": policy.scenario.model_dump(mode="json"),
        "policy": policy.name,
        "seed": seed,
        **(
            {"channels": channels.as_metrics()}
            if channels.recorded
            else {"channels_per_split": len(channels.test)}
        ),
    }
