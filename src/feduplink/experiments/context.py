"""Scale of the experiments, cache of their results, and parallel execution."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from pydantic import BaseModel

from feduplink.errors import InputError
from feduplink.federated import LocalWork
from feduplink.federated.data.datasets import require
from feduplink.federated.tasks.reviews import PAPER_SIZE, WORK, Size
from feduplink.process_pool import process_pool
from feduplink.progress import show_progress, track_each
from feduplink.storage.files import write_text

_T = TypeVar("_T")
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class Scale:
    """Sizes of all experiments.

    Attributes:
        name: name of the scale in ``metrics.json``.
        seeds: number of independent draws of channels and initial weights, for comparisons of
            powers.
        channels: number of channels in each split.
        verdict_channels: number of channels for the test of the constraints; with the number of
            test channels the test is often inconclusive.
        epochs: number of training epochs of ``pdm`` and ``pdg``.
        solved_channels: number of channels for the calibration of the multipliers of ``dual`` and
            ``pdx``; schedules calibrate their rewards for delivery on the same number, at most 512.
        proof_s: time limit of one certificate of optimality, s.
        runs: number of runs of an i.i.d. federated task.
        noniid_runs: number of runs of a non-i.i.d. federated task.
        text_runs: number of runs on the movie reviews.
        rounds: number of rounds on images and air quality; None: the default of the task.
        text_rounds: number of rounds on the movie reviews; None: the default of the task.
        text_size: size of the movie reviews and of their model.
        text_work: local work of a worker in a round on the movie reviews.
    """

    name: str
    seeds: int
    channels: int
    verdict_channels: int
    epochs: int
    solved_channels: int
    proof_s: float
    runs: int
    noniid_runs: int
    text_runs: int
    rounds: int | None
    text_rounds: int | None
    text_size: Size
    text_work: LocalWork

    @property
    def first_look(self) -> bool:
        """Whether the scale is too small for a verdict: every scale but the full one."""
        return self.name != "full"

    @property
    def label(self) -> str:
        """The name and a checksum of all sizes, for the cache."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


FULL = Scale(
    name="full",
    seeds=4,
    channels=1000,
    verdict_channels=10_000,
    epochs=1000,
    solved_channels=20_000,
    proof_s=300.0,
    runs=10,
    noniid_runs=5,
    text_runs=5,
    rounds=None,
    text_rounds=None,
    text_size=PAPER_SIZE,
    text_work=WORK,
)

QUICK = Scale(
    name="quick",
    seeds=2,
    channels=300,
    verdict_channels=1000,
    epochs=100,
    solved_channels=600,
    proof_s=5.0,
    runs=2,
    noniid_runs=2,
    text_runs=1,
    rounds=30,
    text_rounds=5,
    # Small enough for a CPU: a smaller network, fewer and shorter reviews.
    text_size=Size(train=2000, test=400, words=2000, length=32, hidden=32),
    text_work=LocalWork(batch_size=20, batches=5, learning_rate=5e-3, clip_norm=5.0, epsilon=1e-5),
)


@dataclass(frozen=True)
class ExperimentContext:
    """Scale, seed and directories of experiments.

    Attributes:
        directory: cache of policies, outcomes, federated histories and results.
        scale: sizes of the experiments.
        seed: first seed; the n-th of several seeds is ``seed + n``.
        device: device of local training.
        data: directory of the data sets; None: that of ``FEDUPLINK_DATA``.
        processes: number of processes.
    """

    directory: Path
    scale: Scale
    seed: int = 0
    device: str = "cpu"
    data: Path | None = None
    processes: int = 1

    @property
    def seeds(self) -> range:
        """Seeds of experiments that compare powers."""
        return range(self.seed, self.seed + self.scale.seeds)

    @property
    def image_set(self) -> Literal["mnist", "digits"]:
        """``mnist`` if its files are present, else ``digits``, the installed 5,000 digits."""
        try:
            require("mnist", self.data)
        except InputError:
            return "digits"
        return "mnist"

    def data_set(self, data: str | None) -> str | None:
        """Data set used by an experiment on the paper's data set ``data``."""
        return self.image_set if data == "mnist" else data

    def substitution(self, data: str | None) -> str | None:
        """Description of the data set that replaces ``data``; None if it is available."""
        if self.data_set(data) == data:
            return None
        return "the 5,000 digits of the installation, not MNIST"

    def cache_path(self, kind: str, versions: tuple[int, ...], *identity: Any) -> Path:
        """Path of a cached object, without suffix.

        Args:
            kind: kind of object, the name of its directory.
            versions: format numbers of the object and of its inputs; increase one if a change of
                the code changes the numbers.
            identity: JSON-compatible values that, with the scale, determine the object.

        Returns:
            The path, which differs for different arguments.
        """
        text = json.dumps([versions, *identity], sort_keys=True)
        checksum = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self.directory / self.scale.label / kind / checksum

    def cached(
        self,
        model: type[_Model],
        make: Callable[[], _Model],
        kind: str,
        versions: tuple[int, ...],
        *identity: Any,
    ) -> _Model:
        """Return a cached object, which is created by ``make`` if it does not exist.

        Args:
            model: class of the object, which is stored as JSON.
            make: function that creates the object.
            kind: as for :meth:`cache_path`.
            versions: as for :meth:`cache_path`.
            identity: as for :meth:`cache_path`.

        Returns:
            The object.
        """
        file = self.cache_path(kind, versions, *identity).with_suffix(".json")
        if not file.exists():
            write_text(file, make().model_dump_json(indent=1))
        return model.model_validate_json(file.read_bytes())

    def map(
        self,
        work: Callable[..., _T],
        arguments: Sequence[tuple[Any, ...]],
        what: str,
    ) -> list[_T]:
        """Compute ``work(context, *arguments[i])`` for every i, in several processes.

        The first exception is raised without waiting for the remaining calls.

        Args:
            work: module-level function, or method of an object that can be pickled.
            arguments: further arguments of every call.
            what: plural noun for the progress bar.

        Returns:
            The results, in the order of the arguments.
        """
        if self.processes == 1 or len(arguments) == 1:
            return [work(self, *given) for given in track_each(what, arguments)]
        alone = replace(self, processes=1)
        with process_pool(self.processes, _start_process) as pool:
            started = [pool.submit(work, alone, *given) for given in arguments]
            return [future.result() for future in track_each(what, started)]

    def map_seeds(
        self, work: Callable[..., _T], settings: Sequence[tuple[Any, ...]], what: str
    ) -> list[list[_T]]:
        """Compute ``work(context, *settings[i], seed)`` for every i and seed.

        Args:
            work: as for :meth:`map`.
            settings: further arguments of every call, without the seed.
            what: plural noun for the progress bar.

        Returns:
            A list per setting, with a result per seed.
        """
        arguments = [(*setting, seed) for setting in settings for seed in self.seeds]
        found = self.map(work, arguments, what)
        count = len(self.seeds)
        return [found[start : start + count] for start in range(0, len(found), count)]


def _start_process() -> None:
    """Initialise a child process: one thread, and no progress bars (the parent has them)."""
    torch.set_num_threads(1)
    show_progress(False)
