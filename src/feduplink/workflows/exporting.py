"""Export of a policy to an ONNX file."""

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
        scenario: the cell, the radio and the problem.
        policy: policy with a network, as for :func:`feduplink.make_policy`.
        out: directory for ``policy.onnx`` and ``metrics.json``.
        channels: channels whose training split is used to tune the policy; None: drawn ones.
        channels_per_split: number of drawn channels in each split.
        seed: seed of all random numbers.
        reading: ``noise_power_w``, ``transpose`` and ``channel_axes`` of a file or an array, see
            :func:`feduplink.make_channels`.

    Returns:
        The file, and the largest differences to the powers computed by PyTorch, relative to Pmax.

    Raises:
        InputError: if an argument is not accepted, or the policy cannot be exported.

    >>> import tempfile
    >>> import feduplink as fu
    >>> scenario = fu.Scenario(workers=2)
    >>> policy = fu.PerceptronPolicy.initialised(scenario)
    >>> with tempfile.TemporaryDirectory() as out:
    ...     fu.export_policy(scenario, policy, out=out, channels_per_split=10).file.name
    'policy.onnx'
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
