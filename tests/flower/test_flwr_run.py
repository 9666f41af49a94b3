"""The real thing: ``flwr run`` on a SuperLink and SuperNodes, each a process."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from quadratic_app import client_app, server_app
from quadratic_app.strategies import STRATEGIES

from .conftest import FOUR_STRATEGIES
from .flower_processes import FlowerProcesses, flower_processes
from .in_process_grid import InProcessGrid

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
WORKERS, ROUNDS = 2, 2

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerProcesses]:
    with flower_processes(WORKERS, tmp_path_factory.mktemp("flower")) as running:
        yield running


@pytest.fixture(scope="module")
def real(flower: FlowerProcesses) -> dict[str, Any]:
    """What every strategy got to, one after the other on the same SuperNodes."""
    out = flower.directory / "found.json"
    config = f"workers={WORKERS} rounds={ROUNDS} out='{out}'"
    flower.flwr_run(FOUR_STRATEGIES, config)
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same ServerApp and ClientApp called in this process."""
    out = tmp_path_factory.mktemp("in-process") / "found.json"
    config = {"workers": WORKERS, "rounds": ROUNDS, "out": str(out)}
    grid = InProcessGrid(client_app.app, WORKERS)
    server_app.app(grid, Context(1, 1, {}, RecordDict(), config))
    return json.loads(out.read_text())


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_over_the_uplink(name: str, real: dict[str, Any], in_process: dict[str, Any]):
    assert real[name] == in_process[name]
    assert len(real[name]["uplink"]) == ROUNDS
    assert all(found["present"] == [0, 1] for found in real[name]["uplink"])


def test_the_example(flower: FlowerProcesses):
    log = flower.flwr_run(EXAMPLE, f"workers={WORKERS} rounds={ROUNDS}")
    rounds = [ast.literal_eval(found) for found in re.findall(r"round \d+: (\{.*\})", log)]
    assert len(rounds) == ROUNDS, log
    assert rounds[-1]["accuracy"] > 0.7
    for metrics in rounds:
        assert metrics["uplink-present"] == WORKERS
        assert metrics["uplink-airtime-s"] > 0
        assert ("loss" in metrics) == (metrics["uplink-arrivals"] > 0)


def test_the_example_is_short():
    files = EXAMPLE.rglob("*.py")
    assert 0 < sum(len(file.read_text().splitlines()) for file in files) < 100
