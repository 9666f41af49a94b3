"""What a finished training run leaves in its directory."""

from __future__ import annotations

from pathlib import Path

from feduplink.channels import ChannelSplits
from feduplink.comparison import Outcome, compare
from feduplink.comparison_table import comparison_markdown
from feduplink.files import write_text
from feduplink.learning import Training, best_epoch
from feduplink.metrics import write_metrics
from feduplink.policies import save_policy
from feduplink.report.convergence import plot_convergence
from feduplink.report.histogram import plot_power_histogram
from feduplink.report.style import save_figure


def write_training(
    directory: Path, training: Training, splits: ChannelSplits, *, seed: int = 0
) -> Outcome:
    """Write policy, plots, table and ``metrics.json`` of a run; returns the test outcome."""
    policy = training.policy
    scenario = policy.scenario
    validation = compare({policy.name: policy}, splits.validation, scenario, seed=seed)
    test = compare({policy.name: policy}, splits.test, scenario, seed=seed)[policy.name]
    save_policy(policy, directory)
    epochs = plot_convergence(training.history, scenario, policy.name)
    save_figure(directory / "convergence.png", epochs)
    powers = plot_power_histogram({policy.name: test.power}, scenario)
    save_figure(directory / "power-histogram.png", powers)
    table = comparison_markdown({policy.name: test.judgement}, scenario)
    write_text(directory / "comparison.md", table)
    write_metrics(
        directory,
        {
            "title": f"Training of {policy.name}",
            "scenario": scenario.model_dump(mode="json"),
            "policy": policy.name,
            "seed": seed,
            "channels_per_split": len(splits.test),
            "settings": training.settings.model_dump(mode="json"),
            "architecture": policy.architecture.model_dump(mode="json"),
            "epochs": len(training.history),
            "best_epoch": best_epoch(training.history).number + 1,
            "validation": validation[policy.name].judgement.as_metrics(),
            "test": test.judgement.as_metrics(),
        },
    )
    return test
