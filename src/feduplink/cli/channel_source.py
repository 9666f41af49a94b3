"""Where a command's channels come from: drawn from the scenario, or recorded in a file."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from feduplink.channels import draw_splits, read_channels
from feduplink.channels.splits import CHANNELS_PER_SPLIT
from feduplink.cli.options import explicit_fields, scenario_from
from feduplink.errors import InputError
from feduplink.scenario import DRAWING_FIELDS, Scenario


@dataclass(frozen=True)
class ChannelSource:
    """Channels of one scenario.

    Attributes:
        test: channels to judge on, (N, L, L).
        tuning: channels to learn on, (N, L, L); recorded ones serve for both.
        origin: where they come from, in words.
        recorded: they come from a file.
        papers_weights: ω of the scenario, (L,), where recorded channels came without weights and
            the paper's draw stands in.
    """

    test: Tensor
    tuning: Tensor
    origin: str
    recorded: bool
    papers_weights: Tensor | None = None

    @property
    def notes(self) -> list[str]:
        """What a reader of results on these channels has to know."""
        if self.papers_weights is None:
            return []
        low, high = self.papers_weights.aminmax()
        return [
            f"the workers' weights are the paper's draw ({low:.3f} to {high:.3f}), not of your "
            "data; --weights takes your own"
        ]

    def as_metrics(self) -> dict[str, Any]:
        """The ``channels`` entry of ``metrics.json``."""
        entry: dict[str, Any] = {"source": self.origin, "count": len(self.test)}
        if self.papers_weights is not None:
            entry["weights"] = {
                "values": self.papers_weights.tolist(),
                "origin": "the paper's draw of data sizes; the recording came without any",
            }
        return entry


def add_channels_option(parser: argparse.ArgumentParser, remark: str = "") -> None:
    """``--channels``; ``remark`` is added to its help."""
    parser.add_argument(
        "--channels",
        metavar="FILE",
        help="recorded channels (HDF5) instead of drawn ones; the workers are those of the file"
        + remark,
    )


def channels_from(args: argparse.Namespace) -> tuple[Scenario, ChannelSource]:
    """The scenario and its channels, of ``--channels`` or drawn."""
    if args.channels:
        return _recorded(args)
    scenario = scenario_from(args)
    splits = draw_splits(scenario, args.channels_per_split, seed=args.seed)
    return scenario, ChannelSource(
        splits.test, splits.training, "drawn from the scenario", recorded=False
    )


def _recorded(args: argparse.Namespace) -> tuple[Scenario, ChannelSource]:
    csi = read_channels(args.channels).csi
    workers = csi.shape[-1]
    explicit = explicit_fields(args, Scenario)
    if explicit.get("workers", str(workers)) != str(workers):
        raise InputError(
            f"workers: {args.channels} holds channels of {workers} workers; accepted: {workers}, "
            "or no --workers."
        )
    scenario = scenario_from(args, workers=workers)
    usual = Scenario()
    for name in sorted(DRAWING_FIELDS):
        if name in explicit or getattr(scenario, name) != getattr(usual, name):
            warnings.warn(
                f"recorded channels are taken as they are; {name.replace('_', '-')} has no effect",
                stacklevel=2,
            )
    if args.channels_per_split != CHANNELS_PER_SPLIT:
        warnings.warn(
            "all recorded channels are taken; channels-per-split has no effect", stacklevel=2
        )
    assumed = scenario.weights == "data" and "weights" not in explicit
    source = ChannelSource(
        csi,
        csi,
        f"from {args.channels}",
        recorded=True,
        papers_weights=scenario.worker_weights if assumed else None,
    )
    for note in source.notes:
        warnings.warn(note, stacklevel=2)
    return scenario.replace(interference=1.0), source
