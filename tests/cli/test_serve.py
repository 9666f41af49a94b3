from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Run, refused


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDUPLINK_TOKEN", raising=False)


def test_options_reach_the_service(run: Run, tmp_path: Path):
    refusal = refused(run("serve", "--host", "0.0.0.0", "--port", 0))
    assert "can be reached from other machines; accepted with a token" in refusal
    assert "does not exist" in refused(run("serve", "--token-file", tmp_path / "nowhere"))


def test_limits_are_checked(run: Run):
    assert "max_in_flight: " in refused(run("serve", "--max-in-flight", 0))


@pytest.mark.parametrize(
    "option", [("--workers", 3), ("--scenario", "interference-x2"), ("--time-max-s", 1)]
)
def test_an_onnx_file_has_its_own_scenario(run: Run, option: tuple[object, ...]):
    sentence = refused(run("serve", "--policy", "policy.onnx", "--port", 0, *option))
    assert (
        "scenario must not be given with an ONNX file; policy.onnx contains its scenario"
        in sentence
    )
