"""Every strategy over the wireless uplink, on the same nodes; results as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Strategy

from feduplink import FullPower, Scenario
from feduplink.flower import WirelessGrid
from quadratic_app.client_app import WEIGHTS
from quadratic_app.strategies import STRATEGIES

SEED = 1

app = ServerApp()


def scenario(workers: int) -> Scenario:
    """Uploads are often lost."""
    return Scenario(workers=workers, waterfall=5.0)


def first_model() -> ArrayRecord:
    return ArrayRecord({"weights": Array(np.zeros(WEIGHTS))})


def wireless(grid: Grid, workers: int, rounds: int) -> WirelessGrid:
    cell = scenario(workers)
    return WirelessGrid(grid, cell, FullPower(cell), rounds=rounds, seed=SEED)


def over_the_uplink(strategy: Strategy, grid: Grid, workers: int, rounds: int) -> dict[str, Any]:
    uplink = wireless(grid, workers, rounds)
    result = strategy.start(uplink, first_model(), num_rounds=rounds)
    uplink.add_metrics(result)
    return {
        "weights": result.arrays["weights"].numpy().tolist() if result.arrays else None,
        "train": {str(n): dict(m) for n, m in result.train_metrics_clientapp.items()},
        "evaluate": {str(n): dict(m) for n, m in result.evaluate_metrics_clientapp.items()},
        "arrived": uplink.record.arrived.tolist(),
    }


@app.main()
def main(grid: Grid, context: Context) -> None:
    workers, rounds = context.run_config["workers"], context.run_config["rounds"]
    found = {
        name: over_the_uplink(make(), grid, workers, rounds) for name, make in STRATEGIES.items()
    }
    Path(context.run_config["out"]).write_text(json.dumps(found))
