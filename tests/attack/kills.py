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
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pytest
import torch

from feduplink import Scenario, cli, draw_csi
from feduplink.channels import Channels, write_channels
from feduplink.cli import reproduce
from feduplink.files import UNFINISHED

_TICKS = os.sysconf("SC_CLK_TCK")
#: Exit status of a command that a signal ended, as ``os.waitstatus_to_exitcode`` gives it.
_STATUS = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
_NEVER = 10**9
#: In which an interpreter imports PyTorch on a busy machine.
_STARTED_WITHIN_S = 60.0


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
    write_channels(recorded, Channels(csi))
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
    from experiments import tiny

    reproduce.QUICK = tiny.TINY
    tiny.limit_settings(pytest.MonkeyPatch())


CASES = {"train": train_cases, "federate": federate_cases, "reproduce": reproduce_cases}


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
    started = _start(case, out, directory, step=_NEVER)
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
        started = _start(case, out, directory, step=moment.step or _NEVER)
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


@dataclass(frozen=True)
class _Started:
    pid: int
    log: Path
    steps: Path
    has_others: bool
    spent: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Processor time of it and those that it waited for."""
        return self.spent[0]

    def signal_at(self, seconds: float, number: signal.Signals) -> None:
        """Send the signal when so much processor time has been spent, if it is still there."""
        while self._spent() < seconds:
            if not _is_running(self.pid):
                return
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> int:
        _, status, usage = os.wait4(self.pid, 0)
        self.spent.append(usage.ru_utime + usage.ru_stime)
        return os.waitstatus_to_exitcode(status)

    def orphans(self) -> list[str]:
        """Those of its session that are still there after a while.

        One that was just starting ends when it has imported what it needs, and knows its parent.
        """
        deadline = time.monotonic() + _STARTED_WITHIN_S
        while (left := list(_session(self.pid))) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def _spent(self) -> float:
        others = map(int, _session(self.pid)) if self.has_others else ()
        return sum(_times(pid) for pid in {self.pid, *others})


def _start(case: Case, out: Path, directory: Path, step: int = _NEVER) -> _Started:
    handle, name = tempfile.mkstemp(prefix="log-", dir=directory)
    started = _Started(0, Path(name), Path(f"{name}.steps"), case.checkpoint is None)
    sys.stdout.flush()
    if pid := os.fork():
        os.close(handle)
        return replace(started, pid=pid)
    status = 99
    try:
        os.setsid()
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ["FEDUPLINK_CACHE"] = str(directory / "cache")
        case.before()
        counted = _count_steps(step)
        status = cli.main(case.command(out))
        started.steps.write_text(str(counted()))
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _count_steps(last: int) -> Callable[[], int]:
    """From here on count steps in writing files, and end this process before the ``last``."""
    numbers, done = itertools.count(1), [0]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            done[0] = next(numbers)
            if done[0] == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    tempfile.mkstemp = counted(tempfile.mkstemp)
    os.fsync = counted(os.fsync)
    Path.replace = counted(Path.replace)  # type: ignore[method-assign]
    return lambda: done[0]


def _session(leader: int) -> Iterator[str]:
    """Processes of a session that have not ended."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            state, _parent, _group, session = entry.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                yield entry.parent.name


def _times(pid: int) -> float:
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


def _is_running(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


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
        assert cli.main(case.command(directory / f"{case.name}-warm-up")) == 0


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
