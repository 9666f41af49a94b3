"""Experiments so small that all of them take seconds."""

from __future__ import annotations

import pytest

from feduplink.experiments import csi_noise, interference, network_size, optimality_gap, pmax
from feduplink.experiments.scale import Scale
from feduplink.federated import LocalWork
from feduplink.federated.tasks.reviews import Size
from feduplink.federated.uplink import schedules as scheduled_access

TINY = Scale(
    name="tiny",
    seeds=1,
    channels=20,
    verdict_channels=40,
    epochs=2,
    solved_channels=30,
    proof_s=0.2,
    runs=2,
    noniid_runs=1,
    text_runs=1,
    rounds=3,
    text_rounds=3,
    text_size=Size(train=400, test=60, words=500, length=24, hidden=8),
    text_work=LocalWork(batch_size=10, batches=2, learning_rate=2e-3, clip_norm=5.0, epsilon=1e-5),
)


def limit_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two values per sweep, between them three scenarios, and few channels for rewards."""
    strong, loud = "interference-x2", "pmax-0dbw"
    monkeypatch.setattr(interference, "_SCENARIOS", {1.0: "default", 2.0: strong})
    monkeypatch.setattr(pmax, "_SCENARIOS", {-20.0: "default", 0.0: loud})
    monkeypatch.setattr(optimality_gap, "SCENARIOS", ("default", strong))
    monkeypatch.setattr(network_size, "_WORKERS", (8, 6))
    monkeypatch.setattr(csi_noise, "_VARIANCES", (1.0, 1e4))
    monkeypatch.setattr(scheduled_access, "_LEARNED_FROM", 8)
