"""Files of every format that feduplink reads, damaged in seeded ways, and read.

``cd tests && python -m attack.damage 5000`` reads 5,000 and reports the outcomes. A damaged file is
refused in one sentence, or the content read is that written or, where a format has no checksum, a
valid one. Reading takes less than a gigabyte. Another process reads the files, so that a crash or a
hang is detected.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from feduplink import InputError

from .damaged_content import damaged
from .file_formats import Format, formats

MAX_BYTES = 1 << 30
#: Number of files that one process reads, and the time after which it counts as hanging, s.
_FILES_PER_PROCESS, _HANGING_S = 25, 600


@dataclass(frozen=True)
class Outcome:
    """The outcome of reading a damaged file."""

    name: str
    number: int
    result: str
    seconds: float
    memory: int = 0

    @property
    def wrong(self) -> bool:
        return self.result not in ("refused", "read") or self.memory > MAX_BYTES


def read_damaged(given: Format, number: int, seed: int, directory: Path) -> Outcome:
    """Damage a file and read it in this process."""
    rng = random.Random(f"{seed}-{given.name}-{number}")
    path = directory / given.file
    path.write_bytes(damaged(given.content, rng))
    started = time.process_time()
    try:
        found = given.read(directory)
    except InputError as error:
        sentence = str(error)
        one = "\n" not in sentence and sentence.endswith(".") and len(sentence) < 2000
        result = "refused" if one else f"not one sentence: {sentence!r}"
    except Exception:
        result = traceback.format_exc()
    else:
        whole = directory / "whole"
        whole.mkdir(exist_ok=True)
        (whole / given.file).write_bytes(given.content)
        valid = given.is_valid(found) if given.is_valid else found == given.read(whole)
        result = "read" if valid else f"wrong value: {str(found)[:200]}"
    seconds = time.process_time() - started
    path.unlink()
    return Outcome(given.name, number, result, seconds)


def outcomes(count: int, seed: int = 0, names: Sequence[str] = ()) -> Iterator[Outcome]:
    """Outcomes of ``count`` files of all formats in turn, read in other processes."""
    chosen = [given for given in formats() if not names or given.name in names]
    files = zip(range(count), itertools.cycle(chosen), strict=False)
    with tempfile.TemporaryDirectory(prefix="feduplink-damage-") as scratch:
        for given in chosen:
            place = Path(scratch, "whole", given.name)
            place.mkdir(parents=True)
            (place / given.file).write_bytes(given.content)
            given.read(place)  # the undamaged file is read
        while some := list(itertools.islice(files, _FILES_PER_PROCESS)):
            yield from _in_another_process(some, seed, Path(scratch))


def _in_another_process(
    files: list[tuple[int, Format]], seed: int, directory: Path
) -> Iterator[Outcome]:
    log = directory / "log"
    log.unlink(missing_ok=True)
    if (pid := os.fork()) == 0:
        try:
            signal.alarm(_HANGING_S)
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 2)
            with log.open("a", buffering=1) as out:
                for number, given in files:
                    place = directory / given.name
                    place.mkdir(exist_ok=True)
                    found = read_damaged(given, number, seed, place)
                    out.write(json.dumps([found.result, found.seconds]) + "\n")
        finally:
            os._exit(0)
    _, status, usage = os.wait4(pid, 0)
    lines = log.read_text().splitlines() if log.exists() else []
    memory = usage.ru_maxrss * 1024
    for (number, given), line in itertools.zip_longest(files, lines):
        if line is None:
            ended = f"ended the process with {os.waitstatus_to_exitcode(status)}"
            yield Outcome(given.name, number, ended, 0.0)
            return
        result, seconds = json.loads(line)
        yield Outcome(given.name, number, result, seconds, memory)


def main(words: Sequence[str]) -> int:
    torch.set_num_threads(1)
    count, *names = words
    found: Counter[tuple[str, str]] = Counter()
    bad, slowest, largest = 0, 0.0, 0
    for outcome in outcomes(int(count), names=names):
        slowest, largest = max(slowest, outcome.seconds), max(largest, outcome.memory)
        found[outcome.name, outcome.result if not outcome.wrong else "WRONG"] += 1
        if outcome.wrong:
            bad += 1
            print(f"{outcome.name} {outcome.number}: {outcome.seconds:.1f} s, {outcome.result}")
    for (name, result), times in sorted(found.items()):
        print(f"{name:22s} {result:8s} {times}")
    print(
        f"{found.total()} files, {bad} wrong, slowest {slowest:.2f} s of processor time, largest "
        f"process that read them {largest / 2**20:.0f} MiB"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
