"""Compare the results and the interface of two versions of the package.

    python benchmarks/same_results.py run BEFORE            # with the old version on PYTHONPATH
    python benchmarks/same_results.py run AFTER [NAME ...]  # with the new one: all jobs, or some
    python benchmarks/same_results.py compare BEFORE AFTER
    python benchmarks/same_results.py inventory AFTER       # also compared, where both have one

``run`` executes small jobs that cover every command and engine, one thread each, and keeps what
they write and print. ``compare`` reads the outputs of both runs and compares them bit for bit:
``metrics.json`` and other JSON, CSV columns, tensors, HDF5 datasets, powers of exported ONNX
policies, pixels of the figures, HTTP answers, and the words and the numbers of printed tables and
pages. Times, provenance and caches are left out. Differences that ``EXPLAINED`` of
``same_results_jobs.py`` declares are listed as such; any other one makes the exit status 1.

``inventory`` writes the public names with their signatures, the options of every command with
default and help, the fields of scenario files and the HTTP interface.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from interface_inventory import inventory
from same_results_jobs import EXPLAINED, JOBS, RENAMED
from same_results_outputs import SKIPPED, Array, Text, contents, flat
from same_results_run import run

#: Differences of a job that are listed one by one.
_MOST_SHOWN = 40


@dataclass(frozen=True)
class Difference:
    """One place at which two outputs differ, and how.

    Attributes:
        place: ``JOB/FILE#PLACE``, for texts with " (words)" or " (numbers)".
        how: in words.
        size: of a difference of numbers: the largest absolute one over the largest number.
    """

    place: str
    how: str
    size: float | None = None

    @property
    def reason(self) -> str | None:
        """Why this is intended, if it is declared and no larger than declared."""
        for entry in EXPLAINED:
            small = entry.within is None or (self.size is not None and self.size <= entry.within)
            if small and re.fullmatch(entry.pattern, self.place, re.DOTALL):
                return entry.reason
        return None


def compare(before: Path, after: Path) -> int:
    """Print all differences; returns the number of those that are not explained."""
    unexplained = 0
    if before.joinpath("versions.json").exists() and after.joinpath("versions.json").exists():
        old, new = (contents(root / "versions.json") for root in (before, after))
        for difference in _differences("versions", old, new):
            print(f"warning: other surroundings: {difference.place}: {difference.how}")
    ran = {
        root: {path.name.removesuffix(".job.json") for path in root.glob("*.job.json")}
        for root in (before, after)
    }
    order = [job.name for job in JOBS]
    for name in sorted(ran[before] | ran[after], key=lambda n: (*order, n).index(n)):
        if name not in ran[before] or name not in ran[after]:
            print(f"{name}: only run {'before' if name in ran[before] else 'after'}")
            continue
        count, found = _compare_job(name, before, after)
        unexplained += _report(name, count, found)
    inventories = [root / "inventory.json" for root in (before, after)]
    if all(path.exists() for path in inventories):
        old, new = (json.loads(path.read_text("utf-8")) for path in inventories)
        found = list(_inventory_differences(old, new))
        unexplained += _report("inventory", sum(map(len, old.values())), found)
    print(f"{unexplained or 'no'} differences without an explanation")
    return unexplained


def _report(name: str, count: int, found: list[Difference]) -> int:
    """Print what was found in a job; returns the number of differences without a reason."""
    explained = [difference for difference in found if difference.reason]
    open_ones = [difference for difference in found if not difference.reason]
    print(f"{name}: {count} entries, {len(open_ones) or 'none'} differ", end="")
    print(f", {len(explained)} more as declared" if explained else "")
    for difference in open_ones[:_MOST_SHOWN]:
        how = difference.how.replace("\n", "\n      ")
        print(f"  {difference.place}: {how}")
    if len(open_ones) > _MOST_SHOWN:
        print(f"  ... and {len(open_ones) - _MOST_SHOWN} more")
    for reason in dict.fromkeys(difference.reason for difference in explained):
        places = [difference.place for difference in explained if difference.reason == reason]
        print(f"  declared ({reason}): {places[0]}", end="")
        print(f" and {len(places) - 1} more" if len(places) > 1 else "")
    return len(open_ones)


def _compare_job(name: str, before: Path, after: Path) -> tuple[int, list[Difference]]:
    """The number of entries compared, and the differences, of all files of a job."""
    files = {root: _files(name, root) for root in (before, after)}
    renamed = {_renamed(file): file for file in files[before]}
    count, found = 0, []
    for file in sorted({*renamed, *files[after]}):
        if file not in files[after]:
            found.append(Difference(file, "file only before"))
        elif file not in renamed:
            found.append(Difference(file, "file only after"))
        else:
            old = contents(before / renamed[file])
            old = {_renamed(f"{file}#{place}").partition("#")[2]: old[place] for place in old}
            count += len(old)
            found += _differences(file, old, contents(after / file))
    return count, found


def _inventory_differences(
    old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]
) -> Iterator[Difference]:
    """What differs in the interface; a name or command that came or went counts once."""
    for section in dict.fromkeys([*old, *new]):
        before, after = old.get(section, {}), new.get(section, {})
        for key in sorted({*before, *after}):
            place = f"inventory/{section}/{key}"
            if key not in after or key not in before:
                yield Difference(place, f"only {'before' if key in before else 'after'}")
            else:
                yield from _differences(place, dict(flat(before[key])), dict(flat(after[key])))


def _files(name: str, root: Path) -> list[str]:
    below = [path.relative_to(root).as_posix() for path in (root / name).rglob("*")]
    beside = [path.name for path in root.glob(f"{name}.*")]
    return [
        file for file in (*below, *beside) if (root / file).is_file() and not SKIPPED.search(file)
    ]


def _renamed(place: str) -> str:
    for pattern, replacement in RENAMED:
        place = re.sub(pattern, replacement, place)
    return place


def _differences(file: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    for place in dict.fromkeys([*old, *new]):
        where = f"{file}#{place}"
        if place not in new:
            yield Difference(where, f"only before: {_short(old[place])}")
        elif place not in old:
            yield Difference(where, f"only after: {_short(new[place])}")
        elif how := _difference(old[place], new[place]):
            kind = f" ({how[0]})" if how[0] else ""
            yield Difference(f"{where}{kind}", how[1], _relative(old[place], new[place]))


def _relative(old: Any, new: Any) -> float | None:
    """The largest absolute difference over the largest number; None if these are not numbers."""
    one, other = (_numbers(value) for value in (old, new))
    if one is None or other is None or one.shape != other.shape:
        return None
    finite = np.isfinite(one) & np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return None
    one, other = one[finite], other[finite]
    largest = np.abs([*one, *other]).max(initial=0.0)
    return float(np.abs(one - other).max(initial=0.0) / largest) if largest else 0.0


def _numbers(value: Any) -> np.ndarray | None:
    """The numbers of an array, a column or a value, as one row; None if it holds others."""
    if isinstance(value, Array):
        is_number = np.dtype(value.kind).kind in "fiub"
        return np.frombuffer(value.content, value.kind).astype(float) if is_number else None
    try:
        return (
            np.atleast_1d(np.asarray([v or np.nan for v in value], float))
            if isinstance(value, tuple)
            else np.atleast_1d(float(value))
        )
    except (TypeError, ValueError):
        return None


def _difference(old: Any, new: Any) -> tuple[str, str] | None:
    """What kind of difference this is, and how it shows; None for the same bits."""
    if isinstance(old, Array) and isinstance(new, Array):
        return None if old == new else ("", old.against(new))
    if isinstance(old, Text) and isinstance(new, Text):
        if old == new:
            return None
        kind = "words" if old.numbers() == new.numbers() else "numbers"
        return kind, _text_difference(old, new)
    if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        changed = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]
        if not changed:
            return None
        first = f"first {changed[0][0]!r} -> {changed[0][1]!r}"
        return "", f"{len(changed)} of {len(old)} values differ, {first}"
    both_nan = all(isinstance(value, float) and math.isnan(value) for value in (old, new))
    if both_nan or (type(old) is type(new) and old == new):
        return None
    return "", f"{_short(old)} -> {_short(new)}"


def _text_difference(old: str, new: str) -> str:
    """The lines that differ, at most a dozen."""
    if "\n" not in old + new:
        return f"{_short(old)} -> {_short(new)}"
    lines = [
        line
        for line in difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]
    more = f"\n... {len(lines) - 12} more lines" if len(lines) > 12 else ""
    return "\n" + "\n".join(line[:160] for line in lines[:12]) + more


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 240 else f"{text[:240]}..."


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", directory, *names]:
            sys.exit(1 if run(Path(directory), names) else 0)
        case ["compare", before, after]:
            sys.exit(1 if compare(Path(before), Path(after)) else 0)
        case ["inventory", directory]:
            inventory(Path(directory))
        case ["list"]:
            print("\n".join(f"{job.name}: feduplink {job.line}" for job in JOBS))
        case _:
            sys.exit(__doc__)
