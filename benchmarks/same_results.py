"""Whether a change of the code has changed results: a dozen small commands, before and after.

    python benchmarks/same_results.py run BEFORE        # with the old code
    python benchmarks/same_results.py run AFTER         # with the new code
    python benchmarks/same_results.py compare BEFORE AFTER

Compares every number of every ``metrics.json`` bit for bit, without ``provenance`` and seconds, and
lists what differs, is missing or is new.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Name of the run, and its command line; {out} is the directory of all runs.
COMMANDS = {
    "channels": "channels --count 60 --antenna-coefficients",
    "pdg": "train --policy pdg --epochs 6 --channels-per-split 200",
    "pdm": "train --policy pdm --epochs 6 --channels-per-split 200 --csi-noise 1e4",
    "pdg-paper": "train --policy pdg --preset paper --epochs 4 --channels-per-split 200",
    "pdg-subsets": "train --policy pdg --epochs 4 --channels-per-split 200 --subset-workers 4 "
    "--fresh-channels",
    "policies": "evaluate --channels-per-split 200 --policies "
    "rand,rand:unselected,orth,orth:unselected,max,openloop,pdx,{out}/pdg,{out}/pdm",
    "recorded": "evaluate --channels {out}/channels/channels.h5 --optimum 0 "
    "--policies rand,orth,max,openloop,dual,pdx",
    "optimum": "optimum --channels-per-split 60 --budget 0 --confidence 0.95",
    "optimum-fair": "optimum --channels-per-split 40 --budget 0 --utility proportional-fairness",
    "optimum-rate": "optimum --channels-per-split 40 --budget 0 --objective rate --interference 4",
    "optimum-efficiency": "optimum --channels-per-split 40 --budget 0 "
    "--objective energy_efficiency --rate-min 0.3,0.4,0,0.6 --workers 4 --static-power "
    "0.01,0.02,0.01,0.03",
    "shadowed": "evaluate --channels-per-split 200 --channel-model hata-urban-shadowed "
    "--geometry kept --speed-mps 3 --base-stations 3 --policies rand,orth,max,openloop",
    "federated": "federate --task digits --rounds 6 --runs 2 --policies "
    "ideal,tdma,ofdma,max,openloop,{out}/pdg",
    "federated-published": "federate --task digits --rounds 6 --aggregation published "
    "--partition dirichlet --deadline 12 --policies ideal,rand,orth:unselected",
}
#: Entries that differ from run to run.
_NOT_COMPARED = {"provenance", "seconds", "runs_s"}


def run(directory: Path) -> None:
    for name, line in COMMANDS.items():
        words = shlex.split(line.format(out=directory))
        print(f"{name}: feduplink {' '.join(words)}", flush=True)
        subprocess.run(
            [sys.executable, "-m", "feduplink", *words, "--out", str(directory / name)],
            check=True,
            stdout=subprocess.DEVNULL,
        )


def compare(before: Path, after: Path) -> int:
    differing = 0
    for name in COMMANDS:
        old, new = (
            dict(_entries(json.loads((root / name / "metrics.json").read_text("utf-8"))))
            for root in (before, after)
        )
        changed = [
            key for key in old if key in new and _same(old[key], before) != _same(new[key], after)
        ]
        lines = [f"  {key}: {old[key]!r} -> {new[key]!r}" for key in changed]
        lines += [f"  {key}: only before ({old[key]!r})" for key in old if key not in new]
        lines += [f"  {key}: only after ({new[key]!r})" for key in new if key not in old]
        differing += len(lines)
        print(f"{name}: {len(old)} entries, {len(lines) or 'none'} differ")
        print("\n".join(lines), end="\n" if lines else "")
    return differing


def _same(value: Any, directory: Path) -> Any:
    """Text that names the directory of the runs names another one after."""
    return value.replace(str(directory), "DIR") if isinstance(value, str) else value


def _entries(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        for key, value in content.items():
            if key not in _NOT_COMPARED:
                yield from _entries(value, f"{path}/{key}")
    elif isinstance(content, list):
        for place, value in enumerate(content):
            yield from _entries(value, f"{path}/{place}")
    else:
        yield path, content


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", directory]:
            run(Path(directory))
        case ["compare", before, after]:
            sys.exit(1 if compare(Path(before), Path(after)) else 0)
        case _:
            sys.exit(__doc__)
