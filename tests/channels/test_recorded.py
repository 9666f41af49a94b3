from __future__ import annotations

import warnings

import h5py
import numpy as np
import pytest
import torch

from feduplink import InputError, Scenario, draw_channels, read_channels, write_channels
from feduplink.channels import Realisations

CSI = "input/channel_to_noise_matched"


def test_round_trip_with_antenna_channels(tmp_path, generator):
    drawn = draw_channels(Scenario(workers=3, base_stations=2), 20, generator)
    write_channels(tmp_path / "c.h5", drawn)
    read = read_channels(tmp_path / "c.h5")
    assert torch.equal(read.csi, drawn.csi)
    assert read.antenna.dtype == torch.complex64
    assert torch.equal(read.antenna, drawn.antenna)


def test_the_layout_is_that_of_public_recordings(tmp_path, default_csi):
    write_channels(tmp_path / "c.h5", Realisations(default_csi.double()), scenario="workers: 8")
    with h5py.File(tmp_path / "c.h5") as file:
        assert file[CSI].shape == (100, 8, 8)
        assert file[CSI].dtype == np.float32
        assert "input/channel" not in file
        assert file.attrs["scenario"] == "workers: 8"
    assert read_channels(tmp_path / "c.h5").antenna is None


def hdf5(dataset: str, content: object):
    def write(path):
        with h5py.File(path, "w") as file:
            file[dataset] = content

    return write


def with_entry(value: float) -> np.ndarray:
    csi = np.ones((4, 2, 2), np.float32)
    csi[2, 0, 1] = value
    return csi


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda path: None, r"does not exist"),
        (lambda path: path.write_text("alpha,beta\n"), r"cannot be read as HDF5"),
        (
            hdf5("input/other", np.ones((4, 2, 3))),
            r"has input/other of shape \(4, 2, 3\)",
        ),
        (hdf5(f"{CSI}/inner", np.ones(2)), rf"has no dataset {CSI}"),
        (hdf5(CSI, "text"), rf"contains object in {CSI}; accepted: real numbers"),
        (
            hdf5(CSI, np.ones((4, 2, 2), np.complex64)),
            rf"contains complex64 in {CSI}; accepted: real",
        ),
        (hdf5(CSI, np.ones((4, 2, 3))), r"of shape \(4, 2, 3\); accepted: \(N, L, L\)"),
        (hdf5(CSI, np.ones((2, 3))), r"of shape \(2, 3\); accepted: \(N, L, L\)"),
        (hdf5(CSI, np.ones((0, 2, 2))), r"of shape \(0, 2, 2\); .*N >= 1"),
        (hdf5(CSI, with_entry(np.nan)), r"contains NaN or infinity"),
        (hdf5(CSI, with_entry(-1.0)), r"contains a negative or zero gain"),
        (hdf5(CSI, with_entry(0.0)), r"contains a negative or zero gain"),
    ],
)
def test_an_invalid_file_is_refused_in_one_sentence(tmp_path, write, sentence):
    path = tmp_path / "c.h5"
    write(path)
    with pytest.raises(InputError, match=sentence) as refusal:
        read_channels(path)
    assert str(refusal.value).startswith("channels: ")
    assert str(path) in str(refusal.value)


def antennas(*shape: int, value: complex = 1.0) -> np.ndarray:
    return np.full(shape, value, np.complex64)


@pytest.mark.parametrize(
    ("antenna", "sentence"),
    [
        (antennas(3, 2, 1, 5), r"shape \(3, 2, 1, 5\) was given; accepted .*: \(4, 2, K, n_R\)\.$"),
        (antennas(4, 3, 1, 5), r"shape \(4, 3, 1, 5\)"),
        (antennas(4, 2, 5), r"shape \(4, 2, 5\)"),
        (antennas(4, 2, 1, 0), r"shape \(4, 2, 1, 0\)"),
        (antennas(4, 2, 1, 5, value=complex(0, np.nan)), r"NaN, infinity or real"),
    ],
)
def test_antenna_coefficients_of_a_wrong_shape_are_refused(tmp_path, antenna, sentence):
    path = tmp_path / "c.h5"
    with h5py.File(path, "w") as file:
        file[CSI] = np.ones((4, 2, 2), np.float32)
        file["input/channel"] = antenna
    with pytest.raises(InputError, match=rf"^channels: .*c.h5: antenna coefficients: {sentence}"):
        read_channels(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_truncated_file_is_refused(tmp_path, default_csi, share):
    path = tmp_path / "c.h5"
    write_channels(path, Realisations(default_csi))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match="truncated"):
        read_channels(path)


def test_a_failed_write_leaves_the_old_file_only(tmp_path, default_csi):
    path = tmp_path / "c.h5"
    write_channels(path, Realisations(default_csi))
    before = path.read_bytes()

    with pytest.raises(InputError, match="negative or zero"):
        write_channels(path, Realisations(-default_csi))
    unwritable = torch.ones(100, 8, dtype=torch.bfloat16)  # fails after H was written
    with pytest.raises(TypeError):
        write_channels(path, Realisations(default_csi, unwritable))

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("model", ["wbs", "hata-urban", "hata-suburban-shadowed"])
@pytest.mark.parametrize("workers", [2, 8, 30])
def test_gains_in_decibels_are_detected(tmp_path, generator, model, workers):
    csi = draw_channels(Scenario(workers=workers, channel_model=model), 50, generator).csi
    write_channels(tmp_path / "linear.h5", Realisations(csi))
    write_channels(tmp_path / "db.h5", Realisations((10 * csi.log10()).clamp(min=1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_channels(tmp_path / "linear.h5")
    with pytest.warns(UserWarning, match="as if they were in dB"):
        read_channels(tmp_path / "db.h5")
