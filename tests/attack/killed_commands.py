"""The commands that are killed: small ones, of everything that can be resumed or run again."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from experiments.tiny import TINY, small_experiment
from feduplink import Scenario, draw_csi
from feduplink.channels import Realisations, write_channels
from feduplink.experiments import EXPERIMENTS, context, reproduction


@dataclass(frozen=True)
class Case:
    """A command, without ``--out``, and the file that says that it can be resumed.

    ``before`` is called before the command; ``kills`` is how often one run of it is killed.
    """

    name: str
    words: tuple[str, ...]
    checkpoint: str | None
    kills: int = 1
    before: Callable[[], None] = field(default=lambda: None)

    def command(self, out: Path) -> list[str]:
        again = self.checkpoint is not None and (out / self.checkpoint).exists()
        return [*self.words, "--out", str(out), *(["--resume"] if again else [])]


def train_cases(directory: Path) -> list[Case]:
    """``pdg``, ``pdm`` and ``pdx``; the last on recorded channels, which are few."""
    recorded = directory / "recorded.h5"
    csi = draw_csi(Scenario(workers=3), 120, torch.Generator().manual_seed(0))
    write_channels(recorded, Realisations(csi))
    small = ("--channels-per-split", "60", "--workers", "3", "--batch-size", "20")
    epochs = ("--epochs", "12", "--checkpoint-every", "1")
    steps = ("--steps", "400", "--batch-size", "8", "--channels", str(recorded))
    file = "checkpoint.safetensors"
    return [
        Case("pdg", ("train", "--policy", "pdg", *small, *epochs), file),
        Case("pdm", ("train", "--policy", "pdm", *small, *epochs), file),
        Case("pdx", ("train", "--policy", "pdx", *steps), file),
    ]


def federate_cases(directory: Path) -> list[Case]:
    """Digits, and air quality where its data are there, with two policies."""
    tasks = ["digits", *(["airquality"] if os.environ.get("FEDUPLINK_DATA") else [])]
    few = ("--workers", "3", "--rounds", "6", "--checkpoint-every", "1")
    return [
        Case(
            task,
            ("federate", "--task", task, "--policies", "max,rand", *few),
            "federated.safetensors",
        )
        for task in tasks
    ]


def reproduce_cases(directory: Path) -> list[Case]:
    """A figure whose settings two processes work on, and one of a federation."""
    data = os.environ.get("FEDUPLINK_DATA")
    return [
        Case(figure, ("reproduce", figure, "--quick", "--processes", "2"), None, 4, _tiny)
        for figure in ("interference", *(["airquality"] if data else []))
    ]


def _tiny() -> None:
    """Figures at a scale of seconds; called in the process that is killed."""
    context.QUICK = TINY
    reproduction.EXPERIMENTS = {name: small_experiment(name) for name in EXPERIMENTS}


CASES = {"train": train_cases, "federate": federate_cases, "reproduce": reproduce_cases}
