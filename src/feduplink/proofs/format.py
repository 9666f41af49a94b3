"""Proofs as data: statement, problem and boxes, and their HDF5 layout (docs/proofs.md)."""

from __future__ import annotations

import hashlib
import math
import operator
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
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
    """Measures that a proof may have as its objective and under lower limits."""

    SUCCESS = "psr"  #: exp(−m / SINR)
    RATE = "rate"  #: ln(1 + SINR), nats/s/Hz
    EFFICIENCY = "energy_efficiency"  #: ln(1 + SINR) / (μ p + P_c), nats/s/Hz/W


class ProvedUtility(StrEnum):
    """Utility g of the workers' means y."""

    SUM = "weighted-sum"  #: Σ ω y
    FAIRNESS = "proportional-fairness"  #: Σ ω ln y


class Node(IntEnum):
    """Kind of a box: split in two (``BY_…``), or a leaf with the proof of its bound."""

    BY_SINR = 0
    BY_POWER = 1
    BY_SILENCE = 2
    MONOTONE = 3
    TANGENT = 4
    EMPTY = 5


@dataclass(frozen=True)
class Statement:
    """The claim of a proof.

    Attributes:
        objective: lower bound on g(E[f]) at the proof's powers; −∞ if a worker with a weight never
            transmits.
        violation: upper bound on the relative violation of a constraint at these powers; 0 if they
            satisfy all.
        upper_bound: upper bound on g(E[f]) of every policy that satisfies the constraints on the
            channels.
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
        constraints: the K measures c_k.
        limits: (K, L), in the units of the measures.
        active: whether a worker has a limit, (K, L).
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
    """The branching trees of N channels as one queue of M boxes.

    The first N boxes are the roots, one per channel. The halves of the r-th box that is split are
    boxes N + 2 r and N + 2 r + 1, the lower half first. Parents are therefore implicit, and both
    halves of a box are always present.

    Attributes:
        roots: N.
        node: kind of every box, a :class:`Node`, (M,).
        worker: worker whose quantity is split, (M,); 0 for a leaf.
        split_at: SINR or power in W of the split, (M,); 0 for a leaf and for a split by silence.
        at_power: points of tangency, (T, L), W, in the order of their leaves.
        sinr_slope: slopes of the lines above the workers' values in ln SINR, (T, L).
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
        """Whether a box is split, (M,)."""
        return self.node <= Node.BY_SILENCE

    @cached_property
    def tangent_rows(self) -> Integers:
        """Row of the tangent of every box that is bounded by one, (M,)."""
        return np.cumsum(self.node == Node.TANGENT) - 1

    def is_queue(self) -> bool:
        """Whether the boxes form such a queue, so that the leaves cover the roots."""
        parents = np.flatnonzero(self.split)
        children = self.roots + 2 * np.arange(len(parents))
        return len(self.node) == self.roots + 2 * len(parents) and bool((parents < children).all())

    def levels(self) -> Iterator[slice]:
        """Iterate over the rows of the boxes level by level."""
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
        """Extract the trees of channels ``first`` to ``last`` − 1.

        Args:
            channel: channel of every box, (M,).
            first: first channel.
            last: channel after the last.

        Returns:
            The trees, and the rows of their boxes in this queue.
        """
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
    """A statement with all data needed to check it.

    Attributes:
        statement: the claim.
        problem: objective, utility and constraints.
        csi: the channels H, (N, L, L), relative to the noise power; float32 or float64.
        rows: rows of the channels in the file of recorded channels, (N,); None if drawn.
        multipliers: λ of the constraints, (K, L).
        objective_weight: w of the objective's measure, (L,): ω for the weighted sum.
        power: powers that achieve the objective, (N, L), W.
        upper: upper bound on the Lagrangian of each channel, (N,).
        floor: SINR at or below which transmitting has a negligible value, (L,).
        tree: the boxes that prove ``upper``.
        scenario: the scenario as text, for readers; the checker ignores it.
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
        """Checksum of the channels (:func:`channels_sha256`)."""
        return channels_sha256(self.csi)


def channels_sha256(csi: NDArray[np.float32] | Floats) -> str:
    """SHA-256 of the shape and of the little-endian float64 values of channels (N, L, L)."""
    digest = hashlib.sha256(repr(csi.shape).encode())
    digest.update(np.ascontiguousarray(csi, dtype="<f8").tobytes())
    return digest.hexdigest()


FORMAT = "feduplink proof"
VERSION = 2

#: Maximum size of an array.
_MAX_NUMBERS = 2 * 10**9
#: Range of the magnitudes of nonzero numbers, so that products of a few stay in range of float64.
_SMALLEST, _LARGEST = 1e-50, 1e50


@dataclass(frozen=True)
class _Array:
    """An array of the file.

    Attributes:
        name: name in the file.
        field: attribute of :class:`Proof`, for instance ``problem.limits``.
        shape: a letter of :data:`_SIZES` for each dimension.
        sign: 1 for positive numbers, 0 for numbers of at least 0, None for any.
        whole: integer type for nonnegative integers, bounded by :data:`_INTEGER_LIMITS`; None for
            floating-point numbers.
    """

    name: str
    field: str
    shape: str
    sign: int | None = None
    whole: type[np.generic] | None = None


_ARRAYS = (
    _Array("channels/csi", "csi", "NLL", sign=1),
    _Array("problem/weights", "problem.weights", "L", sign=0),
    _Array("problem/limits", "problem.limits", "KL"),
    _Array("problem/active", "problem.active", "KL", whole=np.bool_),
    _Array("problem/pmax_w", "problem.pmax_w", "L", sign=1),
    _Array("problem/static_power_w", "problem.static_power_w", "L", sign=1),
    _Array("multipliers/constraints", "multipliers", "KL"),
    _Array("multipliers/objective_weight", "objective_weight", "L"),
    _Array("policy/power", "power", "NL"),
    _Array("bounds/upper", "upper", "N"),
    _Array("bounds/floor", "floor", "L", sign=1),
    _Array("tree/node", "tree.node", "M", whole=np.int8),
    _Array("tree/worker", "tree.worker", "M", whole=np.int64),
    _Array("tree/split_at", "tree.split_at", "M", sign=0),
    _Array("tangents/at_power", "tree.at_power", "TL", sign=1),
    _Array("tangents/sinr_slope", "tree.sinr_slope", "TL", sign=0),
    _Array("tangents/upper_ends", "tree.upper_ends", "TL", whole=np.bool_),
)
#: Number of values of an integer type: node kinds and booleans.
_INTEGER_LIMITS = {np.int8: len(Node), np.bool_: 2}
_ROWS = _Array("channels/rows", "rows", "N", whole=np.int64)
#: Numbers of channels, workers, constraints, boxes and tangents: array and dimension that define
#: each, and the accepted maximum.
_SIZES = {
    "N": ("channels/csi", 0, 10**7),
    "L": ("channels/csi", 1, 1024),
    "K": ("problem/limits", 0, 64),
    "M": ("tree/node", 0, 10**9),
    "T": ("tangents/at_power", 0, 10**9),
}
_SCENARIO = "scenario"
_COMPRESSED = {"compression": "gzip", "compression_opts": 4, "shuffle": True}

_Name = TypeVar("_Name", bound=StrEnum)


def write_proof(path: Path, proof: Proof) -> None:
    """Write a proof to an HDF5 file; the file appears under its name only when it is complete."""
    with writing_hdf5(path) as file:
        file.attrs.update(format=fixed_text(FORMAT), version=VERSION)
        file[_SCENARIO] = fixed_text(proof.scenario)
        for array in _ARRAYS if proof.rows is None else (*_ARRAYS, _ROWS):
            values = operator.attrgetter(array.field)(proof)
            file.create_dataset(array.name, data=values, **_COMPRESSED)
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
    """Read a proof and validate its format.

    It does not check that the proof holds; see :func:`feduplink.proofs.checker.find_error`.

    Args:
        path: HDF5 file.

    Raises:
        InputError: if the file is not a proof, is damaged, or contains values out of range.
    """
    with reading_hdf5(path, "proof") as file:
        if not {"version", "format"} <= file.attrs.keys():
            raise InputError("was not written by feduplink optimum --certificate")
        if (version := attribute_of(file, "version")) != VERSION:
            raise InputError(f"has format version {version}; accepted: {VERSION}")
        if attribute_of(file, "format") != FORMAT:
            raise InputError("was not written by feduplink optimum --certificate")
        return _proof_in(file)


def _proof_in(file: h5py.File) -> Proof:
    """Read and validate all parts of an open file."""
    sizes = _sizes(file)
    arrays = {array.field: _values(file, array, sizes) for array in _ARRAYS}
    if channels_sha256(arrays["csi"]) != attribute_of(file["channels"], "sha256"):
        raise InputError("is damaged: the checksum of its channels does not match")
    parts: dict[str, dict[str, Any]] = {"": {}, "problem": {}, "tree": {}}
    for field, values in arrays.items():
        part, _, name = field.rpartition(".")
        parts[part][name] = values
    tree = ProofTree(roots=sizes["N"], **parts["tree"])
    if (tree.split_at[tree.node <= Node.BY_POWER] == 0).any():
        raise InputError("splits a box at a power or SINR of 0")
    if np.count_nonzero(tree.node == Node.TANGENT) != sizes["T"]:
        raise InputError("has a number of tangents that differs from that of tangent leaves")
    if (tree.worker >= sizes["L"]).any():
        raise InputError("has a number in tree/worker that is out of range")
    return Proof(
        statement=_statement_in(file),
        problem=_problem_in(file, parts["problem"]),
        rows=_values(file, _ROWS, sizes) if _ROWS.name in file else None,
        tree=tree,
        scenario=_scenario_in(file),
        **parts[""],
    )


def _sizes(file: h5py.File) -> dict[str, int]:
    """Read the sizes of :data:`_SIZES` before any array is read."""
    dimensions = {array.name: len(array.shape) for array in _ARRAYS}
    sizes = {}
    for size, (name, axis, maximum) in _SIZES.items():
        dataset = dataset_in(file, name)
        if dataset.ndim != dimensions[name] or dataset.size > _MAX_NUMBERS:
            raise InputError(f"has {name} of shape {dataset.shape}")
        sizes[size] = int(dataset.shape[axis])
        if sizes[size] > maximum:
            raise InputError(f"is too large: {size} = {sizes[size]}; accepted: {maximum}")
    if 0 in (sizes["N"], sizes["L"]):
        raise InputError("contains no channels")
    return sizes


def _values(file: h5py.File, array: _Array, sizes: dict[str, int]) -> np.ndarray[Any, Any]:
    """Read an array and check its shape, type and range."""
    name, dataset = array.name, dataset_in(file, array.name)
    expected = tuple(sizes[size] for size in array.shape)
    if dataset.shape != expected or dataset.dtype.kind not in ("biu" if array.whole else "f"):
        raise InputError(f"has {name} of {dataset.dtype} {dataset.shape}; accepted: {expected}")
    values: np.ndarray[Any, Any] = dataset[()]
    if array.whole:
        whole = values.astype(np.int64)
        if (whole < 0).any() or (whole >= _INTEGER_LIMITS.get(array.whole, math.inf)).any():
            raise InputError(f"has a number in {name} that is out of range")
        return whole.astype(array.whole)
    if values.dtype not in (np.float32, np.float64):
        raise InputError(f"has {name} of {values.dtype}; accepted: float64")
    size = np.abs(values.astype(np.float64))
    inside = (size >= _SMALLEST) & (size <= _LARGEST)
    accepted = (inside & (values > 0)) if array.sign == 1 else (inside | (values == 0))
    if not accepted.all():
        raise InputError(
            f"has a number in {name} that is out of range; accepted: "
            f"{'' if array.sign == 1 else '0 and '}magnitudes from {_SMALLEST:g} to {_LARGEST:g}"
        )
    if array.sign == 0 and (values < 0).any():
        raise InputError(f"has a negative number in {name}")
    return values


def _scenario_in(file: h5py.File) -> str:
    """Read the scenario text."""
    dataset = dataset_in(file, _SCENARIO)
    if dataset.shape != () or dataset.dtype.kind != "S":
        raise InputError(f"has {_SCENARIO} of {dataset.dtype}; accepted: a text of fixed length")
    return bytes(dataset[()]).decode("utf-8").strip(" ")


def _statement_in(file: h5py.File) -> Statement:
    """Read and validate the statement."""
    names = (field.name for field in fields(Statement))
    statement = Statement(*(float(attribute_of(file["statement"], name)) for name in names))
    if np.isnan(statement.objective) or statement.objective == np.inf:
        raise InputError(f"has objective {statement.objective}; accepted: a number or -inf")
    if not np.isfinite(statement.upper_bound):
        raise InputError(f"has upper_bound {statement.upper_bound}; accepted: a finite number")
    if not 0 <= statement.violation < np.inf:
        raise InputError(
            f"has violation {statement.violation}; accepted: a finite number of 0 or more"
        )
    return statement


def _problem_in(file: h5py.File, arrays: dict[str, Any]) -> ProvedProblem:
    """Read and validate the problem."""
    group = file["problem"]
    names = str(attribute_of(group, "constraints")).split()
    if len(names) != len(arrays["limits"]):
        raise InputError(f"names {len(names)} constraints for {len(arrays['limits'])} limits")
    return ProvedProblem(
        objective=_member(ProvedMeasure, attribute_of(group, "objective")),
        utility=_member(ProvedUtility, attribute_of(group, "utility")),
        constraints=tuple(_member(ProvedMeasure, name) for name in names),
        waterfall=_positive(group, "waterfall"),
        amplifier_inefficiency=_positive(group, "amplifier_inefficiency"),
        **arrays,
    )


def _member(names: type[_Name], given: object) -> _Name:
    """Convert a name to an enumeration member."""
    try:
        return names(str(given))
    except ValueError:
        raise InputError(f"names {given!r}; accepted: {', '.join(names)}") from None


def _positive(group: h5py.Group, name: str) -> float:
    """Read a positive attribute in the accepted range."""
    value = float(attribute_of(group, name))
    if not _SMALLEST <= value <= _LARGEST:
        raise InputError(f"has {name} {value:g}; accepted: {_SMALLEST:g} to {_LARGEST:g}")
    return value


def check_recording(proof: Proof, csi: NDArray[np.float32], origin: str) -> None:
    """Check that the proof's channels equal, bit for bit, their rows of recorded ones.

    A proof of drawn channels has no rows; it is compared with all recorded channels.

    Args:
        proof: the proof.
        csi: recorded channels, (N, L, L).
        origin: name of the recording in the error message.

    Raises:
        InputError: if the channels differ.
    """
    rows = np.arange(len(csi)) if proof.rows is None else proof.rows
    same = csi.shape[1:] == proof.csi.shape[1:] and len(rows) == len(proof.csi)
    if not (same and bool((rows < len(csi)).all()) and np.array_equal(csi[rows], proof.csi)):
        raise InputError(
            f"channels: {origin} contains other channels than the proof; accepted: the recording "
            "from which those of the proof were read."
        )
