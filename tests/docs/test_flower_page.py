"""docs/flower.md: the two halves of its app, its tables of keys and metrics, and its deployment."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Context, RecordDict

from feduplink import FullPower, Scenario
from feduplink.federated import Federation, FederationSettings, UplinkRecord, load_task
from feduplink.flower import TaskResult, TaskRun, UplinkRound
from flower.in_process_grid import InProcessGrid

from .markdown import ROOT, Block, blocks, run

PAGE = ROOT / "docs" / "flower.md"


def blocks_of(language: str) -> list[Block]:
    return [block for block in blocks(PAGE) if block.language == language]


def test_the_app_runs(capsys: pytest.CaptureFixture[str]):
    server, client = blocks_of("python")
    names: list[dict[str, Any]] = [{}, {}]
    for block, own in zip((server, client), names, strict=True):
        run(block, own)
    grid = InProcessGrid(names[1]["app"], 4)
    names[0]["app"](grid, Context(1, 1, {}, RecordDict(), {}))
    assert "'uplink-present': 4" in capsys.readouterr().out


def test_every_key_and_every_metric_is_on_the_page():
    keys = {name.replace("_", "-") for name in TaskRun.model_fields}
    figures = torch.ones(1, dtype=torch.float64)
    worker = torch.ones(1, 1, dtype=torch.bool)
    record = UplinkRecord(worker.double(), worker, figures, figures, figures, worker)
    metrics = set(UplinkRound(1, worker[0], record).metrics())
    text = PAGE.read_text(encoding="utf-8")
    assert {name for name in keys | metrics if f"`{name}`" not in text} == set()


@pytest.mark.slow
def test_the_deployment_is_the_local_engine(tmp_path: Path):
    """The commands of the page on free ports; two workers, two rounds."""
    _simulation, *deployment = blocks_of("sh")
    commands = "\n".join(block.code for block in deployment)
    assert "PORT=9092" in commands
    script = tmp_path / "deployment.sh"
    script.write_text(commands.replace("PORT=9092", f"PORT={free_port()}"))
    binaries = str(Path(sys.executable).parent)
    process = subprocess.Popen(
        ["bash", "-e", str(script)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": os.pathsep.join([binaries, os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "FLWR_TELEMETRY_ENABLED": "0",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        log, _ = process.communicate()
    finally:
        if process.poll() is None:  # the test was interrupted
            os.killpg(process.pid, signal.SIGTERM)
    out = tmp_path / "runs" / "deployment"
    assert list(out.glob("*")), log
    scenario = Scenario(workers=2)
    expected = Federation(
        load_task("digits", workers=2),
        {"max": FullPower(scenario)},
        scenario,
        FederationSettings(rounds=2),
        seed=3,
    ).run()
    assert TaskResult.read(out).history.to_json() == expected.to_json()


def free_port() -> int:
    """A port such that the next two are likely to be free as well."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
