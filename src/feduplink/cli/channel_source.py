"""Where a command's channels come from: drawn from the scenario, or recorded in a file."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from feduplink.channels import Channels, resample_csi
from feduplink.cli.options import explicit_fields, scenario_from
from feduplink.errors import InputError
from feduplink.federated.uplink.rounds import recorded_rounds
from feduplink.scenario import DRAWING_FIELDS, Scenario
from feduplink.settings import CHANNELS_PER_SPLIT


def channels_from(args: argparse.Namespace) -> tuple[Scenario, Channels]:
    """The scenario and its channels, of ``--channels`` or drawn."""
    if args.channels:
        scenario, source = recorded_channels(args, scenario_from)
        if args.channels_per_split != CHANNELS_PER_SPLIT:
            _has_no_effect("channels-per-split")
        return _with_assumed_weights(args, scenario, source)
    scenario = scenario_from(args)
    return scenario, Channels.from_scenario(scenario, args.channels_per_split, seed=args.seed)


def recorded_channels(
    args: argparse.Namespace, make_scenario: Callable[..., Scenario]
) -> tuple[Scenario, Channels]:
    """The channels of ``--channels`` and the scenario for them.

    ``make_scenario(args, workers=...)`` makes it, for the workers of the file. What describes how
    channels would be drawn has no effect, and is warned of.
    """
    source = Channels.from_file(args.channels)
    workers = source.test.shape[-1]
    explicit = explicit_fields(args, Scenario)
    if explicit.get("workers", str(workers)) != str(workers):
        raise InputError(
            f"workers: {args.channels} holds channels of {workers} workers; accepted: {workers}, "
            "or no --workers."
        )
    scenario, usual = make_scenario(args, workers=workers), Scenario()
    for name in sorted(DRAWING_FIELDS):
        if name in explicit or getattr(scenario, name) != getattr(usual, name):
            _has_no_effect(name.replace("_", "-"))
    return scenario.replace(interference=1.0), source


@dataclass(frozen=True)
class RecordedRounds:
    """The test channels of a recording as the rounds of a federation.

    Attributes:
        source: the recording.
        csi: one channel per round of all runs, run after run, (count, L, L).
        resampled: they were drawn with replacement; otherwise they are in the file's order.
    """

    source: Channels
    csi: Tensor
    resampled: bool

    @classmethod
    def from_source(
        cls, source: Channels, count: int, *, resampled: bool, seed: int
    ) -> RecordedRounds:
        """``count`` rounds; more of them than test channels take ``resampled``."""
        csi = resample_csi(source.test, count, seed=seed) if resampled else source.test
        return cls(source, recorded_rounds(csi, count, csi.shape[-1]), resampled)

    @property
    def notes(self) -> list[str]:
        """What a reader of results on these channels has to know."""
        how = "drawn with replacement" if self.resampled else "in their order"
        return [*self.source.notes, f"the channels of the rounds are those for the test, {how}"]

    def as_metrics(self) -> dict[str, Any]:
        """The ``channels`` entry of ``metrics.json``."""
        return {**self.source.as_metrics(), "resampled": self.resampled}


def _has_no_effect(option: str) -> None:
    warnings.warn(f"recorded channels are taken as they are; {option} has no effect", stacklevel=3)


def _with_assumed_weights(
    args: argparse.Namespace, scenario: Scenario, source: Channels
) -> tuple[Scenario, Channels]:
    """Recorded channels say nothing of the workers' data; what stands in for it is said."""
    if scenario.weights != "data" or "weights" in explicit_fields(args, Scenario):
        return scenario, source
    source = replace(source, assumed_weights=scenario.worker_weights)
    warnings.warn(source.notes[-1], stacklevel=3)
    return scenario, source
