from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from feduplink import InputError
from feduplink.storage.tensorfile import TensorFile, read_tensors, write_tensors

CONTENT = TensorFile(
    {"weights": torch.tensor([[1.5, -2.0]]), "generator": torch.arange(4, dtype=torch.uint8)},
    {"scenario": {"workers": 8, "pmax_dbw": -20.0}, "note": "naïve"},
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "state.safetensors"
    write_tensors(path, "policy", CONTENT)
    return path


def test_round_trip_is_exact(file):
    read = read_tensors(file, "policy")
    assert read.tensors.keys() == CONTENT.tensors.keys()
    for name, tensor in CONTENT.tensors.items():
        assert torch.equal(read.tensors[name], tensor)
        assert read.tensors[name].dtype == tensor.dtype
    assert CONTENT.header.items() <= read.header.items()


def test_same_content_gives_the_same_bytes(file, tmp_path):
    for attempt in range(5):
        write_tensors(tmp_path / f"{attempt}", "policy", CONTENT)
        assert (tmp_path / f"{attempt}").read_bytes() == file.read_bytes()


def test_no_flipped_bit_goes_unnoticed(file):
    original = file.read_bytes()
    intact = read_tensors(file, "policy")
    for position in range(len(original)):
        damaged = bytearray(original)
        damaged[position] ^= 1 << position % 8
        file.write_bytes(damaged)
        try:
            read = read_tensors(file, "policy")
        except InputError:
            continue
        # What is not refused, say a bit of the padding, must not have changed anything.
        assert read.header == intact.header, position
        assert all(torch.equal(read.tensors[k], v) for k, v in intact.tensors.items()), position


def test_no_truncation_goes_unnoticed(file):
    original = file.read_bytes()
    for length in range(len(original)):
        file.write_bytes(original[:length])
        with pytest.raises(InputError, match=r"^policy: "):
            read_tensors(file, "policy")


def test_another_kind_is_refused(file):
    with pytest.raises(InputError, match=r"holds a policy; accepted: a training checkpoint"):
        read_tensors(file, "training checkpoint")


def test_foreign_and_missing_files_are_refused(tmp_path):
    save_file({"weights": torch.ones(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(InputError, match="was not written by feduplink"):
        read_tensors(tmp_path / "foreign.safetensors", "policy")
    with pytest.raises(InputError, match="does not exist"):
        read_tensors(tmp_path / "nothing.safetensors", "policy")
    with pytest.raises(InputError, match=r"^policy: "):
        read_tensors(tmp_path, "policy")


def test_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        write_tensors(tmp_path / "state", "policy", TensorFile({}, {"unjsonable": object()}))
    assert list(tmp_path.iterdir()) == []
