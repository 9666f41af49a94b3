from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from feduplink import GraphPolicy, Scenario, save_policy

from .conftest import Run, refused


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDUPLINK_TOKEN", raising=False)


def test_other_machines_need_a_token(run: Run):
    sentence = refused(run("serve", "--host", "0.0.0.0", "--port", 0))
    assert "can be reached from other machines; accepted: 127.0.0.1, or a token" in sentence


def test_tokens_that_are_none(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "token"
    for content in ("", "short\n", "sixteen or more\tcharacters", "ä" * 20):
        file.write_text(content)
        sentence = refused(run("serve", "--token-file", file, "--host", "0.0.0.0"))
        assert sentence.endswith("accepted: 16 or more printable ASCII characters.")
        assert not content or content not in sentence
    monkeypatch.setenv("FEDUPLINK_TOKEN", "short")
    assert "token: FEDUPLINK_TOKEN holds none" in refused(run("serve"))
    assert "does not exist" in refused(run("serve", "--token-file", tmp_path / "nowhere"))


def test_addresses_that_cannot_be_had(run: Run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = refused(run("serve", "--port", port))
    assert f"127.0.0.1 port {port} cannot be had" in sentence
    assert "host: no such host is not known" in refused(run("serve", "--host", "no such host"))


def test_limits_are_checked(run: Run):
    assert "max_in_flight: " in refused(run("serve", "--max-in-flight", 0))


@pytest.mark.parametrize("option", [("--workers", 3), ("--scenario", "x"), ("--time-max-s", 1)])
def test_an_onnx_file_has_its_own_scenario(run: Run, option: tuple[object, ...]):
    sentence = refused(run("serve", "--policy", "policy.onnx", "--port", 0, *option))
    assert "policy.onnx holds its own; accepted: no other with an ONNX file" in sentence


def test_a_file_that_is_no_policy(run: Run):
    assert "policy.onnx does not exist" in refused(
        run("serve", "--policy", "policy.onnx", "--port", 0)
    )


@pytest.mark.slow
def test_a_trained_policy_becomes_a_service(tmp_path: Path):
    import http.client
    import json

    save_policy(GraphPolicy.initialised(Scenario(workers=4), seed=1), tmp_path / "trained")
    policy = ("--policy", str(tmp_path / "trained"))
    with subprocess.Popen(
        [sys.executable, "-m", "feduplink", "serve", "--port", "0", "--workers", "4", *policy],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing pdg as ONNX, which takes some seconds\n"
        address = process.stdout.readline().split("http://")[1].strip()
        connection = http.client.HTTPConnection(address)
        connection.request("GET", "/v1/policy")
        told = json.loads(connection.getresponse().read())
        process.terminate()
    assert (told["policy"], told["workers"]) == ("pdg", None)
