"""The ClientApp of a task: which worker a node is."""

from __future__ import annotations

from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from feduplink import InputError, Scenario
from feduplink.flower import TaskRun
from feduplink.flower.client_app import app as client_app
from feduplink.flower.server_app import app as server_app

from .in_process_grid import InProcessGrid


def test_a_node_beyond_the_workers_of_the_scenario_is_refused(scenario: Scenario, tmp_path: Path):
    config = TaskRun(scenario=scenario, policy="max", rounds=1, out=tmp_path).run_config()
    with pytest.raises(InputError, match="partition-id: 4 is not accepted; accepted: 0 to 3"):
        server_app(InProcessGrid(client_app, 5, config), Context(1, 1, {}, RecordDict(), config))
