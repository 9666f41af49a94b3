"""What a finished training run leaves in its directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from feduplink.channels import ChannelSource
from feduplink.comparison import Outcome, compare
from feduplink.comparison_table import comparison_markdown
from feduplink.files import write_text
from feduplink.learning import Training, best_epoch
from feduplink.metrics import write_metrics
from feduplink.policies import save_policy
from feduplink.report.convergence_plot import plot_convergence
from feduplink.report.histogram import plot_power_histogram
from feduplink.report.style import save_figure


def write_training(
    directory: Path, training: Training, channels: ChannelSource, *, seed: int = 0
) -> Outcome:
    """Write policy, plots, table and ``metrics.json`` of a run; returns the test outcome."""
    policy = training.policy
    scenario, problem = policy.scenario, training.problem
    validation = compare({policy.name: policy}, channels.validation, scenario, problem, seed=seed)
    test = compare({policy.name: policy}, channels.test, scenario, problem, seed=seed)[policy.name]
    save_policy(policy, directory)
    epochs = plot_convergence(training.history, problem, policy.name)
    save_figure(directory / "convergence.png", epochs)
    powers = plot_power_histogram({policy.name: test.power}, scenario)
    save_figure(directory / "power-histogram.png", powers)
    table = comparison_markdown({policy.name: test.judgement}, scenario, notes=channels.notes)
    write_text(directory / "comparison.md", table)
    write_metrics(
        directory,
        {
            "title": f"Training of {policy.name}",
            "scenario": scenario.model_dump(mode="json"),
            "policy": policy.name,
            "seed": seed,
            **training_channels(channels),
            "settings": training.settings.model_dump(mode="json"),
            "architecture": policy.architecture.model_dump(mode="json"),
            "epochs": len(training.history),
            "best_epoch": best_epoch(training.history).number + 1,
            "validation": validation[policy.name].judgement.as_metrics(),
            "test": test.judgement.as_metrics(),
        },
    )
    return test


def training_channels(channels: ChannelSource) -> dict[str, Any]:
    """What ``metrics.json`` says of the channels of a training run."""
    if channels.recorded:
        return {"channels": channels.as_metrics()}
    return {"channels_per_split": len(channels.test)}
