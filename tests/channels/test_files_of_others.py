"""Channels in files of MATLAB, NumPy and HDF5, and in arrays: all are read to the same H."""

from __future__ import annotations

import os
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import torch

import feduplink as fu
from feduplink import InputError, Scenario, draw_csi, make_channels, read_channels
from feduplink.channels import draw_channels, mmse_csi

SCENARIO = Scenario(workers=4)
CSI = draw_csi(SCENARIO, 30, torch.Generator().manual_seed(0)).numpy().astype(np.float64)


def save_v73(path: Path, **arrays: np.ndarray) -> None:
    """Write as MATLAB's ``save -v7.3`` does: 512 bytes of header, axes reversed, complex pairs."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            stored = np.asarray(array).T
            if np.iscomplexobj(stored):
                pair = np.empty(stored.shape, [("real", "f8"), ("imag", "f8")])
                pair["real"], pair["imag"] = stored.real, stored.imag
                stored = pair
            file.create_dataset(name, data=stored).attrs["MATLAB_class"] = np.bytes_("double")
    text = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Thu Nov 19 2026 HDF5 schema 1.00 ."
    with path.open("r+b") as file:
        file.write(text.ljust(116) + bytes(8) + struct.pack("<H", 0x0200) + b"IM")


def save_hdf5(path: Path, **arrays: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip")


def save_npy(path: Path, **arrays: np.ndarray) -> None:
    (array,) = arrays.values()
    np.save(path, array)


WRITERS: dict[str, Callable[..., None]] = {
    "v5.mat": lambda path, **arrays: scipy.io.savemat(path, arrays),
    "v7.mat": lambda path, **arrays: scipy.io.savemat(path, arrays, do_compression=True),
    "v73.mat": save_v73,
    "a.h5": save_hdf5,
    "a.npz": lambda path, **arrays: np.savez(path, **arrays),
    "b.npz": lambda path, **arrays: np.savez_compressed(path, **arrays),
    "a.npy": save_npy,
}


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    def write(**arrays: np.ndarray) -> Path:
        path = tmp_path / request.param
        WRITERS[request.param](path, **arrays)
        return path

    return write


def expected(csi: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(csi).float()


def test_every_format_is_read_to_the_same_channels(write):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_channels(write(H=CSI)).csi.equal(expected(CSI))


def test_the_channel_index_may_be_the_last(write):
    channels = make_channels(SCENARIO, write(H=np.moveaxis(CSI, 0, -1)))
    assert channels.csi.equal(expected(CSI))
    assert "H[i, j, n]" in str(channels.summary())


def test_one_channel_is_a_matrix(write):
    assert read_channels(write(H=CSI[0])).csi.equal(expected(CSI[:1]))


def test_gains_are_divided_by_the_noise_power(write):
    read = read_channels(write(H=CSI * 1e-14), noise_power_w=1e-14).csi
    torch.testing.assert_close(read, expected(CSI))


def test_transposed_gains_are_exchanged(write):
    assert read_channels(write(H=CSI.swapaxes(1, 2)), transpose=True).csi.equal(expected(CSI))
    assert read_channels(write(H=CSI.T), channel_axes="jin").csi.equal(expected(CSI))


def test_effective_coefficients_are_squared(write):
    phases = np.exp(2j * np.pi * np.random.default_rng(0).random(CSI.shape))
    path = write(g=np.sqrt(CSI) * phases)
    torch.testing.assert_close(read_channels(path, channel_axes="nij").csi, expected(CSI))
    assert "H = |g|²" in str(make_channels(SCENARIO, path, channel_axes="nij").summary())


@pytest.mark.parametrize("antennas", [4, 10])
def test_antenna_coefficients_pass_the_matched_filter(write, antennas):
    scenario = SCENARIO.replace(antennas=antennas)
    drawn = draw_channels(scenario, 20, torch.Generator().manual_seed(1))
    path = write(h=drawn.antenna[:, :, 0].numpy())
    given = {"noise_power_w": scenario.noise_power_w}
    if antennas == scenario.workers:  # n_R = L: coefficients of what?
        with pytest.raises(InputError, match=r"in 2 ways; accepted: --channel-axes nij or nir"):
            read_channels(path, **given)
        given["channel_axes"] = "nir"
    torch.testing.assert_close(read_channels(path, **given).csi, drawn.csi, rtol=1e-4, atol=0)
    assert "matched filter" in str(make_channels(scenario, path, **given).summary())


def test_a_cube_can_be_read_in_two_ways(write):
    path = write(H=CSI[:4])
    with pytest.raises(
        InputError, match=r"shape \(4, 4, 4\) .*--channel-axes nij or ijn"
    ) as refusal:
        read_channels(path)
    assert "\n" not in str(refusal.value)
    assert read_channels(path, channel_axes="nij").csi.equal(expected(CSI[:4]))
    # An array has the channel index first, as its contract says.
    assert make_channels(SCENARIO, CSI[:4], split=False).test.equal(torch.from_numpy(CSI[:4]))


@pytest.mark.parametrize("suffix", [name for name in WRITERS if name != "a.npy"])
def test_the_array_is_named_after_a_colon(tmp_path, suffix):
    path = tmp_path / suffix
    WRITERS[suffix](path, H=CSI, G=2 * CSI, positions=np.ones((4, 2)))
    assert read_channels(f"{path}:G").csi.equal(expected(2 * CSI))
    with pytest.raises(InputError) as refusal:
        read_channels(path)
    for words in ("2 arrays that may contain channels", "H (30, 4, 4)", "G (30, 4, 4)", "FILE:"):
        assert words in str(refusal.value)
    with pytest.raises(InputError, match=r"has no array Hh, did you mean H\? it has .*positions"):
        read_channels(f"{path}:Hh")
    WRITERS[suffix](path, H=CSI, positions=np.ones((4, 2)), weights=np.ones(4))
    assert read_channels(path).csi.equal(expected(CSI))


def test_a_name_with_a_colon_is_a_file(tmp_path):
    save_npy(tmp_path / "odd:name", H=CSI)
    (tmp_path / "odd:name.npy").rename(tmp_path / "odd:name")
    assert len(read_channels(tmp_path / "odd:name").csi) == 30


def test_arrays_of_python_follow_the_same_rules():
    antenna = torch.randn(20, 4, 10, dtype=torch.cfloat, generator=torch.Generator().manual_seed(0))
    channels = make_channels(SCENARIO, 300 * antenna)
    assert channels.csi.shape == (20, 4, 4)
    assert "matched filter" in str(channels.summary())
    plain = make_channels(SCENARIO, CSI.astype(np.float32)).csi
    for array, options in (
        (CSI.T.astype(np.float32), {"channel_axes": "jin"}),
        (np.moveaxis(CSI, 0, 2).astype(np.float32), {}),
        (CSI.swapaxes(1, 2).astype(np.float32), {"transpose": True}),
        (CSI.astype(">f4"), {}),
    ):
        assert make_channels(SCENARIO, array, **options).csi.float().equal(plain)
    whole = fu.evaluate(SCENARIO, ["max"], channels=CSI[0])
    assert whole["max"].power.shape == (1, 4)
    assert "1 channel of 4 workers, H[i, j]" in str(whole)
    for wrong, words in (
        (np.array([["a", "b"], ["c", "d"]]), "array of <U1 is not accepted"),
        (np.ones((3, 4, 5)), r"array that has shape \(3, 4, 5\); accepted: \(N, L, L\)"),
        (-CSI, "negative"),
        (CSI + 0j, "in 2 ways; accepted: --channel-axes nij or nir"),
    ):
        with pytest.raises(InputError, match=words):
            make_channels(SCENARIO, wrong)
    with pytest.raises(InputError, match="noise_power_w: accepted only with channels from a file"):
        make_channels(SCENARIO, 30, noise_power_w=1e-14)


def told(scenario: Scenario, what: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make_channels(scenario, what)
    return [str(warning.message) for warning in caught]


def test_suspicious_channels_are_reported(write):
    assert told(SCENARIO, write(H=CSI)) == []
    (sentence,) = told(SCENARIO, write(H=CSI.swapaxes(1, 2)))
    assert "H looks transposed" in sentence
    (sentence,) = told(SCENARIO, write(H=(10 * np.log10(CSI)).clip(1)))
    assert "as if they were in dB" in sentence
    (sentence,) = told(SCENARIO, write(H=CSI * SCENARIO.noise_power_w))
    assert "median SNR at Pmax is -1" in sentence
    assert "the scenario's is 1.43e-15 W" in sentence
    path = write(H=10 * np.log10(CSI * SCENARIO.noise_power_w))
    with pytest.raises(
        InputError, match=r"100% of the gains are negative, .* as if they were in dB"
    ):
        read_channels(path)


def test_the_summary_is_that_of_the_formulas():
    csi = torch.tensor([[[1e4, 10.0], [1e3, 1e5]]])
    channels = make_channels(Scenario(workers=2, pmax_dbw=(-20, -30)), csi, split=False)
    summary = channels.summary()
    assert (summary.channels, summary.workers) == (1, 2)
    assert summary.snr_db == pytest.approx(20)
    # H_11 p_1 / (H_12 p_2) is 40 dB, H_22 p_2 / (H_21 p_1) 10 dB.
    assert summary.sir_db == pytest.approx(25, abs=0.001)
    assert summary.dynamic_range_db == pytest.approx(40)
    drawn = make_channels(SCENARIO, 50).summary()
    assert drawn.order == ""
    assert drawn.snr_db == pytest.approx(10, abs=5)


TRANSPOSABLE = [
    {"channel_model": model, "workers": workers, "geometry": geometry, "antennas": antennas}
    for model in ("wbs", "hata-urban", "hata-suburban-shadowed")
    for workers in (4, 8)
    for geometry in ("redrawn", "kept")
    for antennas in (2, 10)
]


@pytest.mark.parametrize("cell", TRANSPOSABLE, ids=lambda cell: "-".join(map(str, cell.values())))
@pytest.mark.filterwarnings("ignore:Hata")
def test_transposition_is_detected_without_false_alarms(cell):
    scenario = Scenario(**cell)
    alarms, missed = 0, 0
    for seed in range(20):
        csi = draw_csi(scenario, 20, torch.Generator().manual_seed(seed))
        alarms += len(told(scenario, csi))
        missed += not any("transposed" in sentence for sentence in told(scenario, csi.mT))
    assert alarms == 0
    assert missed <= 2


def test_channels_behind_mmse_filters_are_not_taken_for_transposed():
    scenario = Scenario(workers=8)
    for seed in range(20):
        drawn = draw_channels(scenario, 20, torch.Generator().manual_seed(seed))
        antenna = drawn.antenna[:, :, 0].cdouble() / scenario.noise_power_w**0.5
        assert told(scenario, mmse_csi(antenna, torch.tensor(0.01).double())) == []


class Payload:
    """Creates a file when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, ("executed",)


def huge_npy(path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 8, 8), }"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64))


def huge_npz(path: Path) -> None:
    huge_npy(path.with_suffix(".npy"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(path.with_suffix(".npy"), "H.npy")


def huge_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("H", (10**9, 8, 8), "f8", chunks=(1000, 8, 8))


def truncated(suffix: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        WRITERS[suffix](path, H=CSI)
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])

    return write


def saved(**arrays: object) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **{name: np.asarray(a) for name, a in arrays.items()})


def with_entry(value: float) -> np.ndarray:
    csi = CSI.copy()
    csi[3, 0, 1] = value
    return csi


MALFORMED: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "truncated MAT": ("a.mat", truncated("v7.mat"), "ends in the middle of a variable"),
    "truncated MAT 7.3": ("a.mat", truncated("v73.mat"), "cannot be read as HDF5"),
    "truncated NPZ": ("a.npz", truncated("a.npz"), "cannot be read as NPZ"),
    "truncated NPY": ("a.npy", truncated("a.npy"), "cannot be read as NPY"),
    "another format": ("a.mat", lambda p: p.write_text("1,2\n3,4\n"), "is in an unknown format"),
    "empty": ("a.npz", lambda p: p.write_bytes(b""), "is empty"),
    "empty archive": ("a.npz", saved(), "has no array that may contain channels; it has no arrays"),
    "no channels": ("a.npz", saved(H=np.ones((0, 4, 4))), r"of shape \(0, 4, 4\).*N >= 1"),
    "shape": ("a.npz", saved(H=np.ones((30, 4, 5))), r"has H of shape \(30, 4, 5\); accepted"),
    "NaN": ("a.npz", saved(H=with_entry(np.nan)), "contains NaN or infinity"),
    "negative": ("a.npz", saved(H=with_entry(-1.0)), "contains a negative or zero gain"),
    "zero": ("a.npz", saved(H=with_entry(0.0)), "contains a negative or zero gain"),
    "strings": (
        "a.npz",
        saved(H=np.full((3, 2, 2), "1.0")),
        "contains <U3 in H; accepted: real or",
    ),
    "truth values": ("a.npz", saved(H=CSI > 1), "contains bool in H; accepted: real or complex"),
    "pickle in NPZ": ("a.npz", saved(H=np.full((3, 2, 2), Payload())), "contains object in H"),
    "pickle in NPY": (
        "a.npy",
        lambda p: np.save(p, np.full((3, 2, 2), Payload())),
        "contains object in its array",
    ),
    "pickle": ("a.npy", lambda p: p.write_bytes(pickle.dumps(Payload())), "unknown format"),
    "record type": (
        "a.npz",
        saved(H=np.zeros((3, 2, 2), [("gain", "f8"), ("phase", "f8")])),
        "contains .*gain.* in H; accepted: real or complex",
    ),
    "MATLAB struct": (
        "a.mat",
        lambda p: scipy.io.savemat(p, {"cell": {"H": CSI}}),
        "contains struct in cell; accepted: real or complex",
    ),
    "MATLAB text": ("a.mat", lambda p: scipy.io.savemat(p, {"H": "text"}), "contains char in H"),
    "huge NPY": ("a.npy", huge_npy, "which a file of [0-9]+ bytes cannot contain"),
    "huge NPZ": ("a.npz", huge_npz, "which a file of [0-9]+ bytes cannot contain"),
    "huge HDF5": ("a.h5", huge_hdf5, "which a file of [0-9]+ bytes cannot contain"),
    "directory": ("a.npz", Path.mkdir, "is not a regular file"),
    "missing": ("a.npz", lambda p: None, "does not exist"),
    "pipe": ("a.npz", lambda p: os.mkfifo(p), "is not a regular file"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_file_is_refused_in_one_sentence(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    name, write, words = MALFORMED[case]
    path = tmp_path / name
    write(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=words) as refusal:
            make_channels(SCENARIO, path)
    sentence = str(refusal.value)
    assert sentence.startswith("channels: ")
    assert sentence.endswith(".")
    assert str(path) in sentence
    assert "\n" not in sentence
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ("abc", "cannot be read with channel_axes 'abc'; accepted: an order of the letters"),
        ("ij", "which channel_axes ij does not match"),
        ("inj", "which channel_axes inj does not match"),
        ("nir", "which channel_axes nir does not match.*r for complex numbers only"),
    ],
)
def test_axes_that_do_not_fit_are_refused(write, axes, words):
    with pytest.raises(InputError, match=words):
        read_channels(write(H=CSI), channel_axes=axes)


@pytest.mark.parametrize("noise", [0, -1e-14, float("nan"), float("inf"), "1e-14"])
def test_a_noise_power_is_a_number_above_zero(noise):
    with pytest.raises(InputError, match=r"noise_power_w: .*; accepted: a finite number above 0"):
        make_channels(SCENARIO, CSI, noise_power_w=noise)


def test_antenna_coefficients_have_one_axis_of_workers(tmp_path):
    np.save(tmp_path / "h.npy", np.ones((20, 4, 10), complex))
    with pytest.raises(InputError, match="have one worker axis"):
        read_channels(tmp_path / "h.npy", transpose=True)
