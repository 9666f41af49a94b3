from __future__ import annotations

import json
from pathlib import Path

import pytest

from feduplink import InputError
from feduplink.storage.run_directory import Claim, read_metrics, write_metrics

CLAIM = {"claim": "pdg beats max", "measured": "0.94 against 0.71", "verdict": "holds"}


def test_what_is_written_can_be_read(tmp_path: Path):
    write_metrics(tmp_path, {"title": "A run", "seed": 3, "claims": [CLAIM], "else": [1]})
    metrics = read_metrics(tmp_path)
    assert (metrics.title, metrics.seed) == ("A run", 3)
    assert metrics.claims == (Claim(**CLAIM),)
    assert metrics.provenance is not None


def test_runs_from_before_provenance_can_be_read(tmp_path: Path):
    (tmp_path / "metrics.json").write_text('{"scenario": {"workers": 8}, "seed": 1}')
    assert read_metrics(tmp_path).provenance is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Invalid JSON"),
        ('{"scenario": {"workers"', "Invalid JSON"),
        ("\x00\x01", "Invalid JSON"),
        ("[1, 2]", "should be an object"),
        ('{"accuracy": 0.9}', "neither provenance nor scenario"),
        ('{"scenario": {}, "claims": 3}', "claims: "),
        (json.dumps({"scenario": {}, "claims": [{**CLAIM, "verdict": "maybe"}]}), "verdict: "),
        ('{"provenance": {"command": "other"}}', "provenance: "),
    ],
)
def test_what_is_not_ours_is_one_sentence(tmp_path: Path, text: str, words: str):
    (tmp_path / "metrics.json").write_text(text)
    with pytest.raises(InputError, match=words) as refusal:
        read_metrics(tmp_path)
    assert "metrics.json" in str(refusal.value)
    assert str(refusal.value).endswith(".")
    assert "\n" not in str(refusal.value)
