"""Proofs as data: statement, problem and boxes, and their HDF5 layout (docs/proofs.md)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np
from numpy.typing import NDArray

from feduplink.errors import InputError
from feduplink.storage.hdf5 import attribute_of, dataset_in, fixed_text, reading_hdf5, writing_hdf5

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class ProvedMeasure(StrEnum):
    """What a proof may have as its objective and under lower limits."""

    SUCCESS = "psr"  #: exp(−m / SINR)
    RATE = "rate"  #: ln(1 + SINR), nats/s/Hz
    EFFICIENCY = "energy_efficiency"  #: ln(1 + SINR) / (μ p + P_c), nats/s/Hz/W


class ProvedUtility(StrEnum):
    """How the workers' means y become one number."""

    SUM = "weighted-sum"  #: Σ ω y
    FAIRNESS = "proportional-fairness"  #: Σ ω ln y


class Node(IntEnum):
    """What becomes of a box: it is split in two, or it is a leaf and bounded."""

    BY_SINR = 0
    BY_POWER = 1
    BY_SILENCE = 2
    MONOTONE = 3
    TANGENT = 4
    EMPTY = 5


@dataclass(frozen=True)
class Statement:
    """What is proved.

    Attributes:
        objective: what the powers reach at least; −∞ where a worker that counts is never heard.
        violation: by which share of its limit they miss a constraint at most; 0 if they meet all.
        upper_bound: what no policy exceeds that meets the constraints on the channels.
    """

    objective: float
    violation: float
    upper_bound: float


@dataclass(frozen=True)
class ProvedProblem:
    """maximise g(E[f]) subject to E[c_ki | p_i > 0] ≥ limit_ki, 0 ≤ p_i ≤ Pmax_i.

    Attributes:
        objective: f.
        utility: g.
        weights: ω, (L,).
        constraints: c, K of them.
        limits: (K, L), in the unit of the measure.
        active: which worker has a limit in which constraint, (K, L).
        pmax_w, static_power_w: Pmax and P_c, (L,), W.
        waterfall: m.
        amplifier_inefficiency: μ.
    """

    objective: ProvedMeasure
    utility: ProvedUtility
    weights: Floats
    constraints: tuple[ProvedMeasure, ...]
    limits: Floats
    active: Booleans
    pmax_w: Floats
    static_power_w: Floats
    waterfall: float
    amplifier_inefficiency: float


@dataclass(frozen=True)
class ProofTree:
    """The branching of N channels as one queue of M boxes.

    The first N boxes are the roots, one per channel; the two halves of the r-th box that is split
    are boxes N + 2 r and N + 2 r + 1, the lower half first. So there is nothing to say about
    parents, and both halves of a box are always there.

    Attributes:
        roots: N.
        node: what becomes of every box, a :class:`Node`, (M,).
        worker: whose quantity splits it, (M,); 0 for a leaf.
        split_at: at which SINR or power in W, (M,); 0 for a leaf and for a split by silence.
        at_power: where the tangents are taken, (T, L), W, in the order of their leaves.
        sinr_slope: of the lines above the workers' values in ln SINR, (T, L).
        upper_ends: whether R q is bounded from the upper ends of SINR and power, (T, L).
    """

    roots: int
    node: NDArray[np.int8]
    worker: Integers
    split_at: Floats
    at_power: Floats
    sinr_slope: Floats
    upper_ends: Booleans

    @cached_property
    def split(self) -> Booleans:
        """Which boxes are split, (M,)."""
        return self.node <= Node.BY_SILENCE

    @cached_property
    def tangent_rows(self) -> Integers:
        """Which tangent bounds a box that is bounded by one, (M,)."""
        return np.cumsum(self.node == Node.TANGENT) - 1

    def is_queue(self) -> bool:
        """Whether the boxes are a queue as described: then all of a root is in its leaves."""
        parents = np.flatnonzero(self.split)
        children = self.roots + 2 * np.arange(len(parents))
        return len(self.node) == self.roots + 2 * len(parents) and bool((parents < children).all())

    def levels(self) -> Iterator[slice]:
        """The boxes generation by generation."""
        start, stop = 0, self.roots
        while start < stop:
            yield slice(start, stop)
            start, stop = stop, stop + 2 * int(np.count_nonzero(self.split[start:stop]))

    def channel(self) -> Integers:
        """The channel of every box, (M,)."""
        channel = np.arange(len(self.node))
        for level in self.levels():
            halved = channel[level][self.split[level]]
            channel[level.stop : level.stop + 2 * len(halved)] = np.repeat(halved, 2)
        return channel

    def take(self, channel: Integers, first: int, last: int) -> tuple[ProofTree, Integers]:
        """The branching of channels ``first`` to ``last`` − 1, and the rows of its boxes here."""
        chosen = (channel >= first) & (channel < last)
        tangents = chosen[self.node == Node.TANGENT]
        return (
            ProofTree(
                last - first,
                self.node[chosen],
                self.worker[chosen],
                self.split_at[chosen],
                self.at_power[tangents],
                self.sinr_slope[tangents],
                self.upper_ends[tangents],
            ),
            np.flatnonzero(chosen),
        )


@dataclass(frozen=True)
class Proof:
    """A statement with all that is needed to check it.

    Attributes:
        statement: what is proved.
        problem: what it is about.
        csi: the channels H, (N, L, L), relative to the noise; float32 or float64.
        rows: where the channels are in the file they were recorded in, (N,); None if drawn.
        multipliers: λ of the constraints, (K, L).
        objective_weight: w of the objective's measure, (L,): ω for the weighted sum.
        power: the powers that reach the objective, (N, L), W.
        upper: what no powers' Lagrangian exceeds in a channel, (N,).
        floor: the SINR under which a worker on the air is worth next to nothing, (L,).
        tree: the boxes that prove ``upper``.
        scenario: the scenario as text, for readers; nothing is concluded from it.
    """

    statement: Statement
    problem: ProvedProblem
    csi: NDArray[np.float32] | Floats
    rows: Integers | None
    multipliers: Floats
    objective_weight: Floats
    power: Floats
    upper: Floats
    floor: Floats
    tree: ProofTree
    scenario: str = ""

    @property
    def channels_sha256(self) -> str:
        """What tells the channels from others."""
        return channels_sha256(self.csi)


def channels_sha256(csi: NDArray[np.float32] | Floats) -> str:
    """SHA-256 of the shape and of the little-endian float64 values of channels (N, L, L)."""
    digest = hashlib.sha256(repr(csi.shape).encode())
    digest.update(np.ascontiguousarray(csi, dtype="<f8").tobytes())
    return digest.hexdigest()


FORMAT = "feduplink proof"
VERSION = 2

#: Limits of what is read: workers, constraints, channels and boxes.
_MOST_WORKERS = 1024
_MOST_CONSTRAINTS = 64
_MOST_CHANNELS = 10**7
_MOST_BOXES = 10**9
#: Most numbers in one array.
_MOST_NUMBERS = 2 * 10**9
#: Powers, gains, SINRs and the like are 0 or between these: no product of a few of them leaves
#: the range of float64.
_SMALLEST, _LARGEST = 1e-50, 1e50

#: Name in the file, and where in a :class:`Proof` its numbers are.
_ARRAYS: dict[str, Callable[[Proof], Any]] = {
    "channels/csi": lambda proof: proof.csi,
    "problem/weights": lambda proof: proof.problem.weights,
    "problem/limits": lambda proof: proof.problem.limits,
    "problem/active": lambda proof: proof.problem.active,
    "problem/pmax_w": lambda proof: proof.problem.pmax_w,
    "problem/static_power_w": lambda proof: proof.problem.static_power_w,
    "multipliers/constraints": lambda proof: proof.multipliers,
    "multipliers/objective_weight": lambda proof: proof.objective_weight,
    "policy/power": lambda proof: proof.power,
    "bounds/upper": lambda proof: proof.upper,
    "bounds/floor": lambda proof: proof.floor,
    "tree/node": lambda proof: proof.tree.node,
    "tree/worker": lambda proof: proof.tree.worker,
    "tree/split_at": lambda proof: proof.tree.split_at,
    "tangents/at_power": lambda proof: proof.tree.at_power,
    "tangents/sinr_slope": lambda proof: proof.tree.sinr_slope,
    "tangents/upper_ends": lambda proof: proof.tree.upper_ends,
}
_ROWS = "channels/rows"
_SCENARIO = "scenario"
#: Attributes of the problem.
_SAID = ("objective", "utility", "waterfall", "amplifier_inefficiency", "constraints")
_COMPRESSED = {"compression": "gzip", "compression_opts": 4, "shuffle": True}

_Name = TypeVar("_Name", bound=StrEnum)


def write_proof(path: Path, proof: Proof) -> None:
    """Write a proof; the file appears under its name only when it is complete."""
    with writing_hdf5(path) as file:
        file.attrs.update(format=fixed_text(FORMAT), version=VERSION)
        file[_SCENARIO] = fixed_text(proof.scenario)
        for name, values in _ARRAYS.items():
            file.create_dataset(name, data=values(proof), **_COMPRESSED)
        if proof.rows is not None:
            file.create_dataset(_ROWS, data=proof.rows, **_COMPRESSED)
        file["channels"].attrs["sha256"] = fixed_text(proof.channels_sha256)
        problem = proof.problem
        file["problem"].attrs.update(
            objective=fixed_text(problem.objective.value),
            utility=fixed_text(problem.utility.value),
            waterfall=problem.waterfall,
            amplifier_inefficiency=problem.amplifier_inefficiency,
            constraints=fixed_text(" ".join(problem.constraints)),
        )
        file.create_group("statement").attrs.update(vars(proof.statement))


def read_proof(path: str | os.PathLike[str]) -> Proof:
    """Read a proof and check that it is one; raises :class:`InputError` with the reason.

    Whether it holds is another question: :func:`feduplink.proofs.checker.check_proof`.
    """
    with reading_hdf5(path, "proof") as file:
        if not {"version", "format"} <= file.attrs.keys():
            raise _refusal("was not written by feduplink optimum --certificate")
        if (version := attribute_of(file, "version")) != VERSION:
            raise _refusal(f"has format version {version}; accepted: {VERSION}")
        if attribute_of(file, "format") != FORMAT:
            raise _refusal("was not written by feduplink optimum --certificate")
        return _Reader(file).proof()


def _refusal(reason: str) -> InputError:
    return InputError(reason)


class _Reader:
    """Takes the numbers out of an open file, after a look at their shapes."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        channels, workers, _ = self._shape("channels/csi", 3)
        self._sizes = {
            "N": channels,
            "L": workers,
            "K": self._shape("problem/limits", 2)[0],
            "M": self._shape("tree/node", 1)[0],
            "T": self._shape("tangents/at_power", 2)[0],
        }
        most = {
            "N": _MOST_CHANNELS,
            "L": _MOST_WORKERS,
            "K": _MOST_CONSTRAINTS,
            "M": _MOST_BOXES,
            "T": _MOST_BOXES,
        }
        for size, limit in most.items():
            if self._sizes[size] > limit:
                raise _refusal(f"is too large: {size} = {self._sizes[size]}; accepted: {limit}")
        if 0 in (channels, workers):
            raise _refusal("holds no channels")

    def proof(self) -> Proof:
        """All of it."""
        csi = self._numbers("channels/csi", "NLL", positive=True)
        if csi.dtype != np.float32:
            csi = csi.astype(np.float64)
        if channels_sha256(csi) != attribute_of(self._file["channels"], "sha256"):
            raise _refusal("is damaged: the checksum of its channels does not match")
        power = self._numbers("policy/power", "NL")
        return Proof(
            statement=self._statement(),
            problem=self._problem(),
            csi=csi,
            rows=self._whole("channels/rows", "N", None) if _ROWS in self._file else None,
            multipliers=self._numbers("multipliers/constraints", "KL"),
            objective_weight=self._numbers("multipliers/objective_weight", "L"),
            power=power,
            upper=self._numbers("bounds/upper", "N"),
            floor=self._numbers("bounds/floor", "L", positive=True),
            tree=self._tree(),
            scenario=self._scenario(),
        )

    def _scenario(self) -> str:
        dataset = dataset_in(self._file, _SCENARIO)
        if dataset.shape != () or dataset.dtype.kind != "S":
            raise _refusal(f"has {_SCENARIO} of {dataset.dtype}; accepted: a text of fixed length")
        return bytes(dataset[()]).decode("utf-8").strip(" ")

    def _statement(self) -> Statement:
        states = self._file["statement"]
        names = ("objective", "violation", "upper_bound")
        statement = Statement(*(float(attribute_of(states, name)) for name in names))
        if np.isnan(statement.objective) or statement.objective == np.inf:
            raise _refusal("states no objective: it is not a number")
        if not np.isfinite(statement.upper_bound):
            raise _refusal("states no bound: it is not finite")
        if not 0 <= statement.violation < np.inf:
            raise _refusal("states no violation: it is negative or not finite")
        return statement

    def _problem(self) -> ProvedProblem:
        said = {name: attribute_of(self._file["problem"], name) for name in _SAID}
        constraints = tuple(
            _member(ProvedMeasure, name) for name in str(said["constraints"]).split()
        )
        if len(constraints) != self._sizes["K"]:
            raise _refusal(f"names {len(constraints)} constraints of {self._sizes['K']}")
        return ProvedProblem(
            objective=_member(ProvedMeasure, said["objective"]),
            utility=_member(ProvedUtility, said["utility"]),
            weights=self._not_negative("problem/weights", "L"),
            constraints=constraints,
            limits=self._numbers("problem/limits", "KL"),
            active=self._whole("problem/active", "KL", 2).astype(bool),
            pmax_w=self._numbers("problem/pmax_w", "L", positive=True),
            static_power_w=self._numbers("problem/static_power_w", "L", positive=True),
            waterfall=_positive("waterfall", said["waterfall"]),
            amplifier_inefficiency=_positive(
                "amplifier_inefficiency", said["amplifier_inefficiency"]
            ),
        )

    def _tree(self) -> ProofTree:
        node = self._whole("tree/node", "M", len(Node)).astype(np.int8)
        split_at = self._not_negative("tree/split_at", "M")
        if (split_at[node <= Node.BY_POWER] == 0).any():
            raise _refusal("splits a box at a power or SINR of 0")
        if np.count_nonzero(node == Node.TANGENT) != self._sizes["T"]:
            raise _refusal("has not one tangent per box that is bounded by one")
        return ProofTree(
            roots=self._sizes["N"],
            node=node,
            worker=self._whole("tree/worker", "M", self._sizes["L"]),
            split_at=split_at,
            at_power=self._numbers("tangents/at_power", "TL", positive=True),
            sinr_slope=self._not_negative("tangents/sinr_slope", "TL"),
            upper_ends=self._whole("tangents/upper_ends", "TL", 2).astype(bool),
        )

    def _shape(self, name: str, dimensions: int) -> tuple[int, ...]:
        """That of a dataset, of which nothing is read yet."""
        dataset = dataset_in(self._file, name)
        if dataset.ndim != dimensions or dataset.size > _MOST_NUMBERS:
            raise _refusal(f"has {name} of shape {dataset.shape}")
        shape: tuple[int, ...] = dataset.shape
        return shape

    def _read(self, name: str, shape: str, kinds: str) -> np.ndarray[Any, np.dtype[Any]]:
        """A dataset whose sizes are those of ``shape``, for instance ``NL``."""
        dataset = dataset_in(self._file, name)
        expected = tuple(self._sizes[size] for size in shape)
        if dataset.shape != expected or dataset.dtype.kind not in kinds:
            raise _refusal(f"has {name} of {dataset.dtype} {dataset.shape}; accepted: {expected}")
        values: np.ndarray[Any, np.dtype[Any]] = dataset[()]
        return values

    def _numbers(
        self, name: str, shape: str, *, positive: bool = False
    ) -> np.ndarray[Any, np.dtype[Any]]:
        """Floating-point numbers, none of them so large or small that products of them overflow."""
        values = self._read(name, shape, "f")
        if values.dtype not in (np.float32, np.float64):
            raise _refusal(f"has {name} of {values.dtype}; accepted: float64")
        size = np.abs(values.astype(np.float64))
        inside = (size >= _SMALLEST) & (size <= _LARGEST)
        accepted = (inside & (values > 0)) if positive else (inside | (values == 0))
        if not accepted.all():
            raise _refusal(
                f"has a number in {name} that is not accepted; accepted: "
                f"{'' if positive else '0 and '}sizes from {_SMALLEST:g} to {_LARGEST:g}"
            )
        return values

    def _not_negative(self, name: str, shape: str) -> np.ndarray[Any, np.dtype[Any]]:
        values = self._numbers(name, shape)
        if (values < 0).any():
            raise _refusal(f"has a negative number in {name}")
        return values

    def _whole(
        self, name: str, shape: str, under: int | None
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Whole numbers from 0 on, under a limit if there is one."""
        values = self._read(name, shape, "biu").astype(np.int64)
        if (values < 0).any() or (under is not None and (values >= under).any()):
            raise _refusal(f"has a number in {name} that is out of range")
        return values


def _member(names: type[_Name], given: object) -> _Name:
    try:
        return names(str(given))
    except ValueError:
        raise _refusal(f"names {given!r}; accepted: {', '.join(names)}") from None


def _positive(name: str, given: Any) -> float:
    value = float(given)
    if not _SMALLEST <= value <= _LARGEST:
        raise _refusal(f"has {name} {value:g}; accepted: {_SMALLEST:g} to {_LARGEST:g}")
    return value


#: Where the field's public data has the channels H, (n, L, L).
_DATASET = "input/channel_to_noise_matched"


def check_recording(proof: Proof, path: str | os.PathLike[str]) -> None:
    """Refuse unless the proof's channels are, bit for bit, those rows of the file at ``path``.

    A proof of drawn channels names no rows; it is compared with all channels of the file.
    """
    with reading_hdf5(path, "channels") as file:
        dataset = dataset_in(file, _DATASET)
        rows = np.arange(len(dataset)) if proof.rows is None else proof.rows
        same = dataset.shape[1:] == proof.csi.shape[1:] and len(rows) == len(proof.csi)
        same = same and bool((rows < len(dataset)).all())
        csi = np.asarray(dataset, dtype=np.float32) if same else None
    if csi is None or not np.array_equal(csi[rows], proof.csi):
        raise InputError(f"channels: the proof is about other channels than those of {path}.")
