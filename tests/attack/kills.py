"""Commands that are killed at seeded moments, continued, and compared with ones left alone.

``cd tests && python -m attack.kills train 100`` kills as often as that and says what came of it;
likewise ``federate`` and ``reproduce``. Commands are forked from one process that has imported
everything, so that a kill costs a second or two and not two starts of an interpreter.

The moment is seeded, and a matter of progress, not of the clock: a share of the processor time that
the command takes when it is left alone, or the n-th of its steps in writing files (a temporary file
made, flushed, renamed).
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import torch

from feduplink.cli import command_line
from feduplink.storage.files import UNFINISHED

from .killed_commands import CASES, Case
from .started_command import NEVER, StartedCommand, start

#: Exit status of a command that a signal ended, as ``os.waitstatus_to_exitcode`` gives it.
_STATUS = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}


@dataclass(frozen=True)
class Left:
    """What a command leaves: its files by name, and how it got there."""

    files: dict[str, bytes]
    steps: int
    seconds: float


@dataclass(frozen=True)
class Moment:
    """When to send which signal: at a share of the processor time, or before the n-th step."""

    number: signal.Signals
    share: float | None = None
    step: int | None = None

    @classmethod
    def draw(cls, rng: random.Random, alone: Left) -> Moment:
        if alone.steps and rng.random() < 0.4:
            return cls(signal.SIGKILL, step=rng.randint(1, alone.steps))
        number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        return cls(number, share=rng.uniform(0.02, 0.98))


@dataclass(frozen=True)
class Outcome:
    """Of one kill: what is wrong with it, or None."""

    case: str
    moment: Moment
    wrong: str | None


def left_alone(case: Case, directory: Path) -> Left:
    out = directory / f"{case.name}-alone"
    started = _start(case, out, directory)
    status = started.wait()
    assert status == 0, (case.name, status, started.log.read_text())
    steps = int(started.steps.read_text())
    return Left(files_of(out), steps, started.seconds)


def killed_and_continued(
    case: Case, alone: Left, directory: Path, rng: random.Random
) -> list[Outcome]:
    """Kill a command in the middle of its work, and continue it until it is done."""
    out = Path(tempfile.mkdtemp(prefix=f"{case.name}-", dir=directory)) / "out"
    found: list[Outcome] = []
    for _ in range(case.kills):
        moment = Moment.draw(rng, alone)
        started = _start(case, out, directory, moment.step)
        if moment.share is not None:
            started.signal_at(moment.share * alone.seconds / case.kills, moment.number)
        status = started.wait()
        if status == 0:  # it was over before
            break
        wrong = None
        if status != _STATUS[moment.number]:
            wrong = f"ended with {status}: {started.log.read_text()[-2000:]}"
        elif left := started.orphans():
            wrong = f"left {left}"
        found.append(Outcome(case.name, moment, wrong))
    if not found:
        return killed_and_continued(case, alone, directory, rng)
    continued = _start(case, out, directory)
    if continued.wait() != 0:
        wrong = f"could not be continued: {continued.log.read_text()[-2000:]}"
    else:
        wrong = difference(files_of(out), alone.files)
    return [replace(outcome, wrong=outcome.wrong or wrong) for outcome in found]


def files_of(out: Path) -> dict[str, bytes]:
    """Everything in a directory, without what says when and how long."""
    found = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name = str(path.relative_to(out))
        content = path.read_bytes()
        if path.name == "metrics.json":
            metrics = json.loads(content)
            content = json.dumps(_timeless(metrics)).encode()
        elif path.suffix == ".seconds" or path.name == "report.html":
            content = b""
        found[name] = content
    return found


def _timeless(metrics: Any) -> Any:
    if isinstance(metrics, dict):
        return {k: _timeless(v) for k, v in metrics.items() if k not in ("provenance", "runs_s")}
    return metrics


def difference(found: dict[str, bytes], expected: dict[str, bytes]) -> str | None:
    if unfinished := [name for name in found if name.endswith(UNFINISHED)]:
        return f"unfinished: {unfinished}"
    if found.keys() != expected.keys():
        return f"other files: {sorted(found.keys() ^ expected.keys())}"
    differing = [name for name, content in expected.items() if found[name] != content]
    return f"differ: {differing}" if differing else None


def _start(case: Case, out: Path, directory: Path, step: int | None = None) -> StartedCommand:
    return start(
        case.command(out),
        directory,
        before=case.before,
        has_others=case.checkpoint is None,
        step=step or NEVER,
    )


def outcomes(
    kind: Literal["train", "federate", "reproduce"],
    kills: int,
    directory: Path,
    seed: int = 0,
    *,
    first_only: bool = False,
) -> Iterator[Outcome]:
    """So many kills, of the cases in turn, or of the first one only."""
    cases = CASES[kind](directory)[: 1 if first_only else None]
    for case in cases:
        if case.checkpoint is not None:
            _warm_up(case, directory)
    alone = {case.name: left_alone(case, directory) for case in cases}
    left = kills
    for number, case in enumerate(itertools.cycle(cases)):
        rng = random.Random(f"{seed}-{kind}-{number}")
        found = killed_and_continued(case, alone[case.name], directory, rng)[:left]
        yield from found
        left -= len(found)
        if not left:
            return


def _warm_up(case: Case, directory: Path) -> None:
    """Run a command here, so that those forked from here find all modules and fonts loaded."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        mock.patch.dict(os.environ, FEDUPLINK_CACHE=str(directory / "cache")),
    ):
        assert command_line.main(case.command(directory / f"{case.name}-warm-up")) == 0


def main(words: Sequence[str]) -> int:
    kind, kills, *seed = words
    torch.set_num_threads(1)
    good = bad = 0
    with tempfile.TemporaryDirectory(prefix="feduplink-kills-") as directory:
        for found in outcomes(kind, int(kills), Path(directory), *map(int, seed)):  # type: ignore[arg-type]
            good, bad = good + (found.wrong is None), bad + (found.wrong is not None)
            moment = found.moment
            when = f"step {moment.step}" if moment.step else f"{moment.share:.2f} of the time"
            print(
                f"{good} of {good + bad}: {found.case}, {moment.number.name} at {when}: "
                f"{found.wrong or 'as left alone'}",
                flush=True,
            )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
