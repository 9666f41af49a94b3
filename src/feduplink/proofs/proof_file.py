"""Proofs as HDF5 files, in the layout of docs/proofs.md."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np

from feduplink.errors import InputError
from feduplink.hdf5_file import (
    attribute_of,
    dataset_in,
    fixed_text,
    reading_hdf5,
    writing_hdf5,
)
from feduplink.proofs.proof import (
    Node,
    Proof,
    ProofTree,
    ProvedMeasure,
    ProvedProblem,
    ProvedUtility,
    Statement,
    channels_sha256,
)

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
