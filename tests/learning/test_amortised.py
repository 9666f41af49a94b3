from __future__ import annotations

import pytest
import torch

from feduplink import InputError, Scenario
from feduplink.policies import UnrolledNetwork, lagrangian_at_gates, shipped_network
from feduplink.settings import NetworkSettings
from feduplink.training import AnyScenario, Curriculum, NetworkTraining, OneScenario, TunedProblems
from recorder import Recorder, Stop, StopAt


def test_a_short_training_comes_near_the_maximum():
    scenario = Scenario(workers=4)
    network = UnrolledNetwork.initialised(0)
    curriculum = OneScenario(scenario)
    recorder = Recorder()
    training = NetworkTraining(network, curriculum, NetworkSettings(steps=100, batch_size=64))
    training.run([recorder])
    assert [step.done for step in recorder.steps] == [100]
    batch, prices = curriculum.draw(200, torch.Generator().manual_seed(77))

    @torch.no_grad()
    def reached(candidate: UnrolledNetwork) -> float:
        ends = lagrangian_at_gates(batch, prices, candidate(batch, prices)[-1])
        return float(ends.amax(0).mean())

    shipped = shipped_network()
    assert reached(UnrolledNetwork.initialised(0)) < reached(shipped) - 0.05
    assert reached(network) > reached(shipped) - 0.02


def small_training(
    seed: int = 3, steps: int = 200, curriculum: Curriculum | None = None
) -> NetworkTraining:
    return NetworkTraining(
        UnrolledNetwork.initialised(1),
        curriculum or OneScenario(Scenario(workers=2)),
        NetworkSettings(steps=steps, batch_size=4),
        seed=seed,
    )


def same(one: NetworkTraining, other: NetworkTraining) -> bool:
    pairs = zip(one.network.parameters(), other.network.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("tuned", [False, True])
def test_interrupted_and_resumed_is_the_same_as_undisturbed(tuned, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    whole, parts, resumed = (
        small_training(curriculum=TunedProblems(AnyScenario(workers=(2, 3))) if tuned else None)
        for _ in range(3)
    )
    whole.run()
    with pytest.raises(Stop):
        parts.run([StopAt(200, "steps")], checkpoint)
    resumed.resume(checkpoint)
    assert resumed.step == 200  # saved before anybody was told
    resumed.run()
    assert same(resumed, whole)


@pytest.mark.parametrize(
    ("another", "named"),
    [
        (small_training(seed=4), "seed"),
        (small_training(steps=300), r"settings \(steps\)"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(another, named, tmp_path):
    small_training().save(tmp_path / "checkpoint.safetensors")
    with pytest.raises(InputError, match=f"another {named}"):
        another.resume(tmp_path / "checkpoint.safetensors")


def test_a_checkpoint_of_another_format_is_refused(tmp_path, monkeypatch):
    small_training().save(tmp_path / "checkpoint.safetensors")
    monkeypatch.setattr("feduplink.training.unrolled._FORMAT", 0)
    with pytest.raises(InputError, match="made with another format"):
        small_training().resume(tmp_path / "checkpoint.safetensors")


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match="learning_rate"):
        NetworkSettings(learning_rate=-1)
