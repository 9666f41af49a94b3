from __future__ import annotations

import math

import pytest
import torch

from feduplink.federated import Capacity, TrialRound, measured_capacity, side_by_side


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 7, 8, 100])
def test_every_simulation_trains_exactly_once(at_once: int):
    policies, runs = 3, 4
    seen = []
    for chosen, groups in side_by_side(policies, runs, at_once):
        for simulations in groups:
            indices = list(range(simulations.start, simulations.stop))
            assert len(indices) <= max(at_once, 1)
            assert [simulation % runs for simulation in indices] == list(chosen) * (
                len(indices) // len(chosen)
            )
            seen += indices
    assert sorted(seen) == list(range(policies * runs))


GPU_BYTES = 1_000_000


class PretendedMemory:
    """The memory of a GPU as PyTorch reports it; of a million free bytes, work takes some."""

    TAKEN_BEFORE = 5_000

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.peak = 0
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (GPU_BYTES, GPU_BYTES))
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device: self.TAKEN_BEFORE)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _device: self.peak)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _device: self.take(0))

    def take(self, size: int) -> None:
        self.peak = self.TAKEN_BEFORE + size


def gpu_capacity(
    monkeypatch: pytest.MonkeyPatch, training: int, measuring: int, load: int | None
) -> Capacity:
    """On a GPU on which ``training`` and ``measuring`` take some bytes."""
    memory = PretendedMemory(monkeypatch)
    trial = TrialRound(lambda: memory.take(training), lambda: memory.take(measuring), load)
    return measured_capacity(torch.device("cuda"), weights_per_simulation=10, trial=trial)


def test_simulations_fill_the_share_of_the_gpu(monkeypatch: pytest.MonkeyPatch):
    assert gpu_capacity(monkeypatch, 60_000, 20_000, None) == Capacity(10, math.inf)
    assert gpu_capacity(monkeypatch, 20_000, 100_000, None) == Capacity(6, math.inf)
    assert gpu_capacity(monkeypatch, 10 * GPU_BYTES, 1, None).simulations == 1


def test_room_for_sequences_does_not_depend_on_the_sequences_of_the_trial(
    monkeypatch: pytest.MonkeyPatch,
):
    short = gpu_capacity(monkeypatch, 10_000, 1_000, load=50)
    long = gpu_capacity(monkeypatch, 40_000, 1_000, load=200)
    assert short == long
    assert short.room == pytest.approx(0.6 * GPU_BYTES / 200)


def test_simulations_of_sequences_are_bounded_by_weights_and_evaluation(
    monkeypatch: pytest.MonkeyPatch,
):
    by_weights = gpu_capacity(monkeypatch, 10_000, 1, load=50)
    assert by_weights.simulations == int(0.2 * GPU_BYTES / (4 * 8 * 10))
    assert gpu_capacity(monkeypatch, 10_000, 100_000, load=50).simulations == 6


def test_a_cpu_is_given_what_its_cache_holds():
    trial = TrialRound(lambda: None, lambda: None, load=7)
    cpu = torch.device("cpu")
    assert measured_capacity(cpu, 318_080, trial) == Capacity(5, math.inf)
    assert measured_capacity(cpu, 10**9, trial).simulations == 1
