"""What all experiments share: where results are kept, how much is done, and how many at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import BaseModel

from feduplink.experiments.fingerprint import code_fingerprint
from feduplink.experiments.scale import Scale
from feduplink.files import write_text

_T = TypeVar("_T")
_Model = TypeVar("_Model", bound=BaseModel)


def _silent(_what: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Bench:
    """Where and at which scale experiments run.

    Attributes:
        directory: for what is kept between runs: policies, judged settings, federations.
        scale: how much is done.
        seed: of everything; the n-th of several seeds is ``seed + n``.
        device: for local training.
        data: directory of the data sets; None is that of ``FEDUPLINK_DATA``.
        processes: how many settings are worked on at once.
        tell: told what is being worked on; not by other processes.
    """

    directory: Path
    scale: Scale
    seed: int = 0
    device: str = "cpu"
    data: Path | None = None
    processes: int = 1
    tell: Callable[[str], None] = field(default=_silent, compare=False)

    @property
    def seeds(self) -> range:
        """The seeds of experiments that compare powers."""
        return range(self.seed, self.seed + self.scale.seeds)

    def kept(self, kind: str, code: tuple[str, ...], *identity: Any) -> Path:
        """A path, without suffix, for something that ``identity``, scale and ``code`` determine.

        ``code`` names the parts of the package that it depends on, see
        :mod:`feduplink.experiments.fingerprint`: once they change there is nothing under the path.
        """
        text = json.dumps([code_fingerprint(code), *identity], sort_keys=True)
        return (
            self.directory
            / self.scale.label
            / kind
            / hashlib.sha256(text.encode()).hexdigest()[:16]
        )

    def once(
        self,
        model: type[_Model],
        make: Callable[[], _Model],
        kind: str,
        code: tuple[str, ...],
        *identity: Any,
    ) -> _Model:
        """What ``make`` makes, made once: kept as JSON, see :meth:`kept`."""
        file = self.kept(kind, code, *identity).with_suffix(".json")
        if not file.exists():
            write_text(file, make().model_dump_json(indent=1))
        return model.model_validate_json(file.read_bytes())

    def map(
        self,
        work: Callable[..., _T],
        arguments: Sequence[tuple[Any, ...]],
        what: str,
    ) -> list[_T]:
        """``work(bench, *arguments[i])`` for every i, in order, several at once.

        ``work`` is a function of a module: other processes have to find it. Where one fails, those
        that have not begun are not begun.
        """
        done: list[_T] = []
        if self.processes == 1 or len(arguments) == 1:
            for number, given in enumerate(arguments):
                self.tell(f"{what} {number + 1} of {len(arguments)}")
                done.append(work(self, *given))
            return done
        alone = Bench(self.directory, self.scale, self.seed, self.device, self.data)
        with ProcessPoolExecutor(
            self.processes, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            started = [pool.submit(work, alone, *given) for given in arguments]
            try:
                for number, future in enumerate(started):
                    self.tell(f"{what} {number + 1} of {len(arguments)}")
                    done.append(future.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return done
