"""One number of a proof file, damaged.

Not every number that is changed makes a proof wrong: other multipliers prove another bound that may
be under the stated one, another split covers all powers as well, a lower power may cost nothing
that was promised. A damage *matters* if the file no longer proves what it states:

- the file is not what the format says (a worker that does not exist, halves that are missing, a
  checksum that does not fit), or
- a second checker in plain float64 (``reference``), which errs towards accepting, finds a stated
  value false, or a box whose bound exceeds the claimed one, by a clear margin.

Damages that do not matter are drawn again. There is no number for the parent of a box: the order of
the boxes says it, and what would be a wrong parent is a wrong ``node``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from feduplink.errors import InputError
from feduplink.proofs import read_proof
from feduplink.proofs.format import Node

from .reference import is_wrong

_Change = Callable[[np.random.Generator, float], float]


def _scaled(low: float, high: float) -> _Change:
    """By a random power of ten."""
    return lambda rng, old: (old or 1.0) * 10 ** rng.uniform(low, high)


def _other(count: int) -> _Change:
    return lambda rng, old: (int(old) + rng.integers(1, count)) % count


def _shifted(rng: np.random.Generator, old: float) -> float:
    return old - (abs(old) + 1) * 10 ** rng.uniform(-4, 0)


def _flipped(rng: np.random.Generator, old: float) -> float:
    return not old


def _negated(rng: np.random.Generator, old: float) -> float:
    return -(abs(old) or 1.0)


#: By the name in the file; those of ``statement`` and ``problem`` that are single are attributes.
DAMAGES: dict[str, tuple[_Change, ...]] = {
    "bounds/upper": (_shifted,),
    "bounds/floor": (_scaled(1, 16),),
    "tree/node": (_other(6),),
    "tree/worker": (lambda rng, old: int(old) + rng.choice([-1, 1]),),
    "tree/split_at": (_scaled(-2, 2),),
    "tangents/at_power": (_scaled(-2, 2),),
    "tangents/sinr_slope": (_scaled(-1.5, 1.5), _negated),
    "tangents/upper_ends": (_flipped,),
    "multipliers/constraints": (_scaled(-2, 1), _negated),
    "multipliers/objective_weight": (_scaled(-1, 1),),
    "policy/power": (_scaled(-3, 2), _negated),
    "problem/weights": (_scaled(-1, 1),),
    "problem/limits": (_scaled(-1, 1),),
    "problem/active": (_flipped,),
    "problem/pmax_w": (_scaled(-2, 2),),
    "problem/static_power_w": (_scaled(-1, 1),),
    "problem.waterfall": (_scaled(-1, 1),),
    "problem.amplifier_inefficiency": (_scaled(-1, 1),),
    "statement.objective": (lambda rng, old: -_shifted(rng, -old),),
    "statement.violation": (_negated,),
    "statement.upper_bound": (_shifted,),
    "channels/csi": (_scaled(-2, 2),),
}


def damage(path: Path, whole: Path, name: str, rng: np.random.Generator) -> int | None:
    """Copy the proof ``whole`` to ``path`` and change one number of ``name`` in it.

    Returns the channel whose boxes it concerns, None if all.
    """
    shutil.copyfile(whole, path)
    change = DAMAGES[name][rng.integers(len(DAMAGES[name]))]
    with h5py.File(path, "r+") as file:
        if "." in name:
            group, attribute = name.split(".")
            attrs = file[group].attrs
            attrs[attribute] = float(change(rng, float(attrs[attribute])))
            return None
        dataset = file[name]
        place = tuple(int(rng.integers(size)) for size in dataset.shape)
        dataset[place] = change(rng, dataset[place].item())
    if name.startswith(("tree/", "tangents/")):
        tree = read_proof(whole).tree
        rows = np.arange(len(tree.node))
        if name.startswith("tangents/"):
            rows = rows[tree.node == Node.TANGENT]
        return int(tree.channel()[rows[place[0]]])
    return place[0] if name == "bounds/upper" else None


def has(whole: Path, name: str) -> bool:
    """Whether the proof has such numbers."""
    with h5py.File(whole) as file:
        return "." in name or file[name].size > 0


def matters(path: Path, channel: int | None) -> bool:
    """Whether the file no longer proves what it states, see above; ``channel`` is that of
    :func:`damage`.
    """
    try:
        proof = read_proof(path)
    except InputError:
        return True
    return is_wrong(proof, only_channel=channel)


def is_refused(path: Path) -> bool:
    """What a user sees: the file cannot be read as a proof, or the proof does not hold."""
    from feduplink.proofs.checker import find_error

    try:
        return find_error(read_proof(path)) is not None
    except InputError:
        return True
