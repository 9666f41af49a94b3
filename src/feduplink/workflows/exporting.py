"""Export a policy to an ONNX file.

>>> import feduplink as fu
>>> fu.export_policy(fu.Scenario(workers=4), "runs/train", out="runs/export")  # doctest: +SKIP
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from feduplink.scenario import Scenario
from feduplink.settings import CHANNELS_PER_SPLIT
from feduplink.workflows.options import (
    ChannelsOption,
    ChannelsPerSplit,
    CommandLine,
    PolicyLike,
    Reading,
    Seed,
    workflow,
)

if TYPE_CHECKING:
    from feduplink.export import ExportedPolicy

ONNX_FILE = "policy.onnx"


@workflow
def export_policy(
    scenario: Scenario,
    policy: Annotated[
        PolicyLike,
        Field(description="pdx, package.module:Object, or the directory of a training run"),
        CommandLine(metavar="NAME", type=str),
    ] = "pdx",
    *,
    out: str | os.PathLike[str],
    channels: ChannelsOption = None,
    channels_per_split: ChannelsPerSplit = CHANNELS_PER_SPLIT,
    seed: Seed = 0,
    **reading: Reading,
) -> ExportedPolicy:
    """Write a policy as an ONNX file, checked against PyTorch.

    Args:
        scenario: cell, radio and problem.
        policy: policy with a network, as for :func:`feduplink.make_policy`.
        out: directory for ``policy.onnx`` and ``metrics.json``.
        channels: channels on whose training split a policy is tuned; None: drawn ones.
        channels_per_split: number of drawn channels of a split.
        seed: seed of all random numbers.
        reading: ``noise_power_w``, ``transpose`` and ``channel_axes`` of a file or an array, as of
            :func:`feduplink.make_channels`.

    Returns:
        The file, and its largest differences to PyTorch.
    """
    from feduplink.channels.channel_set import channels_for
    from feduplink.export import export_onnx
    from feduplink.policies import make_policy
    from feduplink.storage.run_directory import write_metrics

    scenario, data = channels_for(scenario, channels, channels_per_split, seed=seed, **reading)
    made = make_policy(policy, scenario, channels=data, seed=seed)
    directory = Path(out)
    exported = export_onnx(made, directory / ONNX_FILE)
    metrics = {
        "title": f"{exported.name} as an ONNX file",
        "policy": exported.name,
        "scenario": made.scenario.model_dump(mode="json"),
        "seed": seed,
        "difference_of_pmax": {str(size): value for size, value in exported.differences.items()},
    }
    write_metrics(directory, metrics)
    return exported
