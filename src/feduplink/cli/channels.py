"""``feduplink channels``: draw channels and write them to HDF5."""

from __future__ import annotations

import argparse

import numpy as np

from feduplink.channels import draw_channels, write_channels
from feduplink.cli.console import console
from feduplink.cli.options import scenario_from
from feduplink.randomness import torch_generator
from feduplink.storage.run_directory import output_directory, write_metrics

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def run(args: argparse.Namespace) -> None:
    """Draw, write ``channels.h5`` and ``metrics.json``, and say what was drawn."""
    scenario, directory = scenario_from(args), output_directory(args)
    channels = draw_channels(
        scenario,
        args.count,
        torch_generator(args.seed, "test-channels"),
        keep_antenna=args.antenna_coefficients,
    )
    gain = channels.csi.diagonal(dim1=-2, dim2=-1).numpy()
    quantiles = (10 * np.log10(np.quantile(gain, _QUANTILES))).tolist()
    metrics = {
        "title": f"{args.count} channels of {scenario.workers} workers",
        "scenario": scenario.model_dump(mode="json"),
        "seed": args.seed,
        "count": args.count,
        "direct_gain_db": dict(zip(map(str, _QUANTILES), quantiles, strict=True)),
    }
    path = directory / "channels.h5"
    write_channels(path, channels, scenario=scenario.to_yaml())
    write_metrics(directory, metrics)

    out = console()
    out.print(f"{args.count} channels of {scenario.workers} workers in {path}")
    out.print(
        f"direct gain over noise at 1 W: median {quantiles[2]:.1f} dB, "
        f"90 % between {quantiles[0]:.1f} and {quantiles[-1]:.1f} dB"
    )
