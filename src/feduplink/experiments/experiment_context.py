"""What all experiments run with: where results are kept, how much is done, how many at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import BaseModel

from feduplink.experiments.scale import Scale
from feduplink.process_pool import process_pool
from feduplink.progress import show_progress, track_each
from feduplink.storage.files import write_text

_T = TypeVar("_T")
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class ExperimentContext:
    """Where and at which scale experiments run.

    Attributes:
        directory: for what is kept between runs: policies, judged settings, federations.
        scale: how much is done.
        seed: of everything; the n-th of several seeds is ``seed + n``.
        device: for local training.
        data: directory of the data sets; None is that of ``FEDUPLINK_DATA``.
        processes: how many settings are worked on at once.
    """

    directory: Path
    scale: Scale
    seed: int = 0
    device: str = "cpu"
    data: Path | None = None
    processes: int = 1

    @property
    def seeds(self) -> range:
        """The seeds of experiments that compare powers."""
        return range(self.seed, self.seed + self.scale.seeds)

    def cache_path(self, kind: str, versions: tuple[int, ...], *identity: Any) -> Path:
        """A path, without suffix, for something that ``identity`` and the scale determine.

        ``versions`` are those of the thing and of what it is computed from. They stand beside the
        code that computes it and are increased by hand when a change of that code changes the
        numbers: nothing is kept under the new path.
        """
        text = json.dumps([versions, *identity], sort_keys=True)
        return (
            self.directory
            / self.scale.label
            / kind
            / hashlib.sha256(text.encode()).hexdigest()[:16]
        )

    def cached(
        self,
        model: type[_Model],
        make: Callable[[], _Model],
        kind: str,
        versions: tuple[int, ...],
        *identity: Any,
    ) -> _Model:
        """What ``make`` makes, made once: kept as JSON, see :meth:`cache_path`."""
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
        """``work(context, *arguments[i])`` for every i, in order, several at once.

        ``what`` names them in the plural, for progress bars.
        ``work`` is a function of a module: other processes have to find it. Where one fails, the
        others are not waited for.
        """
        if self.processes == 1 or len(arguments) == 1:
            return [work(self, *given) for given in track_each(what, arguments)]
        alone = replace(self, processes=1)
        with process_pool(self.processes, _start_process) as pool:
            started = [pool.submit(work, alone, *given) for given in arguments]
            return [future.result() for future in track_each(what, started)]


def _start_process() -> None:
    """In each of the other processes: one thread, and no progress, which the first one shows."""
    torch.set_num_threads(1)
    show_progress(False)
