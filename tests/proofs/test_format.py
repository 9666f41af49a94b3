from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from feduplink import InputError
from feduplink.proofs import Proof, read_proof, write_proof
from feduplink.proofs.format import check_recording

from .searched import searched_proof


@pytest.fixture(scope="module")
def proof() -> Proof:
    return searched_proof(8)


@pytest.fixture
def path(proof: Proof, tmp_path: Path) -> Path:
    write_proof(tmp_path / "proof.h5", proof)
    return tmp_path / "proof.h5"


def test_a_written_proof_is_read_back(proof: Proof, path: Path):
    again = read_proof(path)
    assert again.statement == proof.statement
    assert again.channels_sha256 == proof.channels_sha256
    assert again.scenario == proof.scenario
    assert again.tree.roots == proof.tree.roots
    for name in ("csi", "multipliers", "objective_weight", "power", "upper", "floor"):
        np.testing.assert_array_equal(getattr(again, name), getattr(proof, name))
    for part in ("problem", "tree"):
        for name, value in vars(getattr(proof, part)).items():
            np.testing.assert_array_equal(getattr(getattr(again, part), name), value)


def _set(name: str, value: object) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        if "." in name:
            group, attribute = name.split(".")
            (file[group] if group else file).attrs[attribute] = value
        else:
            del file[name]
            if value is not None:
                file[name] = value

    return change


def _entry(name: str, value: float) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        file[name][(0,) * file[name].ndim] = value

    return change


def _elsewhere(file: h5py.File) -> None:
    del file["policy/power"]
    file["policy/power"] = h5py.ExternalLink("other.h5", "power")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            _set(".format", np.bytes_("something")),
            "was not written by feduplink optimum --certificate",
        ),
        (_set(".version", 1), "has format version 1.0; accepted: 2"),
        (_set(".format", "feduplink proof"), "has object in the attribute format"),
        (_set("tree/node", None), "has no dataset tree/node"),
        (_set("policy/power", np.zeros((2, 2))), "has policy/power of float64 (2, 2)"),
        (_set("policy/power", np.zeros((3, 4), complex)), "has policy/power of complex128"),
        (_set("tree/node", np.zeros((2, 2), np.int8)), "has tree/node of shape (2, 2)"),
        (_entry("bounds/upper", np.nan), "has a number in bounds/upper that is out of range"),
        (_entry("policy/power", np.inf), "has a number in policy/power"),
        (_entry("bounds/floor", 0), "has a number in bounds/floor"),
        (_entry("problem/pmax_w", -1), "has a number in problem/pmax_w"),
        (_entry("tree/worker", 4), "has a number in tree/worker that is out of range"),
        (_entry("tree/node", 17), "has a number in tree/node that is out of range"),
        (_entry("tangents/sinr_slope", -1.0), "has a negative number in tangents/sinr_slope"),
        (_entry("channels/csi", 17.0), "the checksum of its channels does not match"),
        (_set("statement.objective", np.nan), "has objective nan; accepted"),
        (_set("statement.upper_bound", np.inf), "has upper_bound inf; accepted"),
        (_set("statement.violation", -1.0), "has violation -1.0; accepted"),
        (_set("problem.objective", np.bytes_("goodput")), "names 'goodput'; accepted: psr, rate,"),
        (_set("problem.constraints", np.bytes_("rate")), "names 1 constraints for"),
        (_set("problem.waterfall", 0.0), "has waterfall 0; accepted"),
        (_elsewhere, "has a link instead of policy/power"),
    ],
)
def test_an_invalid_proof_is_refused(path: Path, change: Callable[[h5py.File], None], words: str):
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(InputError) as refusal:
        read_proof(path)
    assert words in str(refusal.value)
    assert str(refusal.value).startswith(f"proof: {path} ")
    assert str(refusal.value).endswith(".")


def test_other_files_are_refused(tmp_path: Path):
    text = tmp_path / "text.h5"
    text.write_text("no HDF5")
    with pytest.raises(InputError, match=r"proof: .*text.h5 cannot be read as HDF5"):
        read_proof(text)
    with pytest.raises(InputError, match=r"proof: .*nowhere.h5 does not exist"):
        read_proof(tmp_path / "nowhere.h5")


def test_other_channels_than_those_of_the_proof_are_refused(proof: Proof, path: Path):
    check_recording(read_proof(path), proof.csi, "recorded.h5")
    other = proof.csi.copy()
    other[1, 0, 1] *= np.float32(1.0000002)
    for csi in (other, proof.csi[1:]):
        with pytest.raises(InputError, match=r"recorded\.h5 contains other channels than the"):
            check_recording(read_proof(path), csi, "recorded.h5")
