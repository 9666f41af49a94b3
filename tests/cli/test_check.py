from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from feduplink import Scenario, draw_csi, write_channels
from feduplink.channels import Realisations

from .conftest import TINY, Run, refused

_SHORT = ("--budget-s", 0.2, "--rate-min", 0.2, "--ee-min", 10, "--interference", 8)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    csi = draw_csi(Scenario(workers=3), 20, torch.Generator().manual_seed(2))
    path = tmp_path / "recorded.h5"
    write_channels(path, Realisations(csi))
    return path


def test_the_proof_of_drawn_channels(run: Run):
    ended = run("optimum", *TINY, *_SHORT, "--certificate", "proof.h5")
    assert ended.status == 0
    assert "feduplink check proof.h5" in ended.out
    ended = run("check", "proof.h5")
    assert ended.status == 0
    assert "psr (weighted-sum), rate ≥ 0.2, energy_efficiency ≥ 10, Pmax 0.01 W" in ended.out
    for word in ("40 of 3 workers", "boxes", "objective", "bound", "seconds", "SHA-256"):
        assert word in ended.out
    assert "proof holds" in ended.out
    assert ended.err == ""


@pytest.mark.parametrize("part", [(), ("--whole-file",)])
def test_the_proof_of_recorded_channels(run: Run, recorded: Path, part: tuple[str, ...]):
    words = ("--channels", recorded, "--budget-s", 0, "--weights", "ones", *part)
    assert run("optimum", *words, "--certificate", "proof.h5").status == 0
    ended = run("check", "proof.h5", "--channels", recorded)
    assert ended.status == 0
    assert f"{20 if part else 6} of 3 workers" in ended.out
    assert "SHA-256" not in ended.out
    with h5py.File(recorded, "r+") as file:
        file["input/channel_to_noise_matched"][5] *= 2
    sentence = refused(run("check", "proof.h5", "--channels", recorded))
    assert "contains other channels than the proof" in sentence


def test_where_a_proof_fails_is_said(run: Run, tmp_path: Path):
    assert run("optimum", *TINY, *_SHORT, "--certificate", "proof.h5").status == 0
    with h5py.File(tmp_path / "proof.h5", "r+") as file:
        file["bounds/upper"][17] -= 0.1
    ended = run("check", "proof.h5")
    assert ended.status == 1
    assert ended.out == ""
    assert ended.err.startswith("feduplink: channel 17, box ")
    assert " claimed, " in ended.err
    assert ended.err.endswith(" found.\n")


def test_what_cannot_be_proved_is_refused_before_the_search(run: Run, tmp_path: Path):
    (tmp_path / "own.py").write_text(
        "from feduplink import Measure\n"
        "class Power(Measure):\n"
        "    name, on_air_only, convex_in_log_power = 'power', False, True\n"
        "    def value(self, sinr, power):\n"
        "        return power\n"
    )
    words = ("--constraints", "own:Power <= 0.005", "--certificate", "proof.h5")
    sentence = refused(run("optimum", *TINY, *words))
    assert "the measure power was given; accepted in a proof" in sentence
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.h5",), "nowhere.h5 does not exist"),
        ((), "PROOF"),
        (("proof.h5", "--processes", 0), "processes"),
    ],
)
def test_bad_options(run: Run, words: tuple[object, ...], said: str):
    assert said in refused(run("check", *words))


def test_channels_that_are_no_file(run: Run, tmp_path: Path):
    assert run("optimum", *TINY, "--budget-s", 0, "--certificate", "proof.h5").status == 0
    assert "nowhere.h5" in refused(run("check", "proof.h5", "--channels", "nowhere.h5"))
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file["other"] = np.zeros(3)
    sentence = refused(run("check", "proof.h5", "--channels", "empty.h5"))
    assert "empty.h5 has other of shape (3,); accepted: (N, L, L)" in sentence
