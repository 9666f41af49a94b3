"""Files crafted to be misread, and damaged files of every format."""

from __future__ import annotations

import gzip
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from feduplink import InputError, Scenario
from feduplink.federated.data import datasets as npz_file
from feduplink.federated.tasks import images as mnist_task
from feduplink.policies import DualPolicy, GraphPolicy, load_policy, save_policy, shipped_pdx
from feduplink.reporting.page import read_sections, render_page
from feduplink.storage.run_directory import find_runs, read_metrics
from feduplink.storage.tensorfile import TensorFile, checksum, read_tensors, write_tensors
from feduplink.validation import parse_yaml

from . import damage
from .forked import forked


def test_damaged_files_of_every_format_are_refused_or_read_correctly():
    """A sample of those of ``python -m attack.damage``."""
    wrong = [found for found in damage.outcomes(190, seed=1) if found.wrong]
    assert wrong == []


@pytest.mark.slow
def test_thousands_of_damaged_files_are_refused_or_read_correctly():
    wrong = [found for found in damage.outcomes(5000, seed=2) if found.wrong]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workers: 4\nworkers: 5", "has workers twice"),
        ("a: &x [1]\nb: *x", "anchor or alias"),
        ("a: &x [a, b]\nb: [*x, *x]", "anchor or alias"),
        ("[" * 100_000, "nested too deeply"),
        ("{a: " * 100_000, "nested too deeply"),
        ("- " * 100_000, "nested too deeply"),
        ("workers: " + "9" * 5000, "digits"),
        ("workers: 0x" + "f" * 5000, "thousands of digits"),
        ("pmax_dbw: 2020-01-01", "pmax_dbw: "),
        ("2020-01-01: 1", "no such field"),
        ("workers: !!python/object/apply:os.getcwd []", "has the tag"),
        ("workers: true", "workers: True is neither a number nor a text"),
        ("pmax_dbw: [true, -20, -20]\nworkers: 3", "pmax_dbw: "),
        ("objective: false", "objective: "),
        ("? [1, 2]\n: 3", "found unhashable key"),
    ],
)
def test_crafted_scenarios_are_refused(text: str, words: str):
    with pytest.raises(InputError) as refusal:
        Scenario.from_text(text)
    assert words in str(refusal.value)


@settings(max_examples=60)
@given(st.text(alphabet="ab:[]{}&*!?-|>'\"#%@, \n\t01.e~", max_size=60))
def test_any_text_is_read_as_yaml_or_refused(text: str):
    try:
        found = parse_yaml(text)
    except ValueError:
        return
    assert found is None or isinstance(found, str | int | float | bool | list | dict)


def test_pipes_and_large_files_are_refused_as_scenarios(tmp_path: Path):
    os.mkfifo(tmp_path / "a.yaml")
    with pytest.raises(InputError, match="not a regular file"):
        Scenario.load(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(InputError, match="accepted: at most"):
        Scenario.load(tmp_path / "b.yaml")


def crafted(path: Path, header: Any, tensors: dict[str, torch.Tensor]) -> Path:
    """A file of any content with the right checksum."""
    if isinstance(header, dict):
        header = json.dumps({"sha256": checksum(tensors, header), **header})
    save_file(tensors, path, metadata={"feduplink": header})
    return path


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "null",
        "7",
        "{",
        "[" * 100_000,
        '{"kind": "policy", "kind": "policy"}',
        {},
        {"kind": 7},
    ],
)
def test_crafted_headers_are_refused(tmp_path: Path, header: Any):
    path = crafted(tmp_path / "a.safetensors", header, {"a": torch.ones(2)})
    with pytest.raises(InputError):
        read_tensors(path, "policy")


def test_a_header_without_a_checksum_is_refused(tmp_path: Path):
    tensors = {"a": torch.ones(2, dtype=torch.bfloat16)}
    save_file(tensors, tmp_path / "a.safetensors", metadata={"feduplink": '{"kind": "policy"}'})
    with pytest.raises(InputError, match="checksum"):
        read_tensors(tmp_path / "a.safetensors", "policy")


def test_a_pipe_is_refused_as_a_policy(tmp_path: Path):
    os.mkfifo(tmp_path / "policy.safetensors")
    with pytest.raises(InputError, match="not a regular file"):
        load_policy(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["pdx", "dual", "pdg"])
def test_infinite_weights_and_multipliers_are_refused(tmp_path: Path, name: str, value: float):
    pdx = shipped_pdx()
    policies = {
        "pdx": pdx,
        "dual": DualPolicy(pdx.scenario, pdx.point),
        "pdg": GraphPolicy.initialised(Scenario(workers=3)),
    }
    save_policy(policies[name], tmp_path)
    file = read_tensors(tmp_path / "policy.safetensors", "policy")
    for changed in file.tensors:
        tensor = file.tensors[changed]
        if not tensor.is_floating_point():
            continue
        damaged = tensor.clone()
        damaged.view(-1)[-1] = value
        header = {key: entry for key, entry in file.header.items() if key != "kind"}
        content = TensorFile({**file.tensors, changed: damaged}, header)
        write_tensors(tmp_path / "policy.safetensors", "policy", content)
        with pytest.raises(InputError, match="NaN or infinity"):
            load_policy(tmp_path)


@pytest.mark.parametrize("change", ["shape", "absent", "more", "negative"])
def test_multipliers_of_wrong_shapes_and_values_are_refused(tmp_path: Path, change: str):
    pdx = shipped_pdx()
    save_policy(DualPolicy(pdx.scenario, pdx.point), tmp_path)
    file = read_tensors(tmp_path / "policy.safetensors", "policy")
    tensors = dict(file.tensors)
    if change == "shape":
        tensors["constraints"] = tensors["constraints"][:, :3]
    elif change == "absent":
        del tensors["thresholds"]
    elif change == "more":
        tensors["other"] = torch.ones(3)
    else:
        tensors["constraints"] = -1 - tensors["constraints"]
    header = {key: entry for key, entry in file.header.items() if key != "kind"}
    write_tensors(tmp_path / "policy.safetensors", "policy", TensorFile(tensors, header))
    with pytest.raises(InputError):
        load_policy(tmp_path)


def test_a_file_that_declares_more_than_it_holds_is_refused(tmp_path: Path):
    shape = struct.pack(">HBB3I", 0, 8, 3, 60_000, 280, 280)
    (tmp_path / "a.gz").write_bytes(gzip.compress(shape + bytes(1 << 20)))
    with pytest.raises(InputError, match="not a complete idx file"):
        mnist_task.read_idx(tmp_path / "a.gz", 3)


def test_an_array_with_code_is_refused(tmp_path: Path):
    np.savez(tmp_path / "a.npz", vectors=np.array([print], dtype=object))
    with pytest.raises(InputError, match="is damaged"):
        npz_file.read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "true", '"x"', "[]"])
def test_metrics_with_extreme_numbers_are_rendered_or_refused(tmp_path: Path, value: str):
    content = '{"title": "t", "runs_s": 1.5, "scenario": {"rate_min": X}, "settings": {"a": [X]}}'
    (tmp_path / "metrics.json").write_text(content.replace("X", value))
    assert "<h2>t</h2>" in render_page(read_sections(find_runs([tmp_path])))
    (tmp_path / "metrics.json").write_text(content.replace("1.5", value))
    if value != "true":
        with pytest.raises(InputError):
            read_metrics(tmp_path)


def test_evaluate_refuses_channels_in_another_file(tmp_path: Path):

    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset(
            "input/channel_to_noise_matched", (1, 2, 2), "u1", external=[("/etc/passwd", 0, 4)]
        )
    out = tmp_path / "out"
    ended = forked(["evaluate", "--channels", tmp_path / "a.h5", "--policies", "max", "--out", out])
    assert ended.status == 2
    assert ended.said.count("\n") == 1
    assert "in another file" in ended.said
    assert not out.exists()
