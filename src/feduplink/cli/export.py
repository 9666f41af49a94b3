"""``feduplink export``: a policy as an ONNX file."""

from __future__ import annotations

import argparse

from feduplink.cli.channel_source import channels_from
from feduplink.cli.console import console
from feduplink.export import export_onnx
from feduplink.policies import make_policy
from feduplink.storage.run_directory import output_directory, write_metrics

_FILE = "policy.onnx"


def run(args: argparse.Namespace) -> None:
    """Find the policy, write ``policy.onnx`` and ``metrics.json``, and say how well they agree."""
    directory = output_directory(args)
    scenario, channels = channels_from(args)
    policy = make_policy(args.policy, scenario, channels=channels, seed=args.seed)
    exported = export_onnx(policy, directory / _FILE)
    write_metrics(
        directory,
        {
            "title": f"{policy.name} as an ONNX file",
            "policy": policy.name,
            "scenario": policy.scenario.model_dump(mode="json"),
            "seed": args.seed,
            "difference_of_pmax": {str(size): d for size, d in exported.differences.items()},
        },
    )
    sizes = ", ".join(map(str, exported.differences))
    workers = policy.fixed_workers or "any number of"
    console().print(
        f"{policy.name} for {workers} workers in {exported.file}: differs from PyTorch by at most "
        f"{max(exported.differences.values()):.1g} of Pmax, at {sizes} workers"
    )
