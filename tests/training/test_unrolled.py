from __future__ import annotations

import pytest
import torch

from feduplink import InputError, Scenario
from feduplink.policies import (
    ChannelFeatures,
    UnrolledNetwork,
    price_unit,
    shipped_network,
)
from feduplink.settings import NetworkSettings
from feduplink.training import (
    AnyScenario,
    Curriculum,
    LagrangianLearning,
    NetworkLoss,
    OneScenario,
    RecordedLosses,
    Trainer,
    TunedProblems,
)
from recorder import Recorder, Stop, StopAt

PAIR = Scenario(workers=2)


def test_a_short_training_comes_near_the_maximum():
    scenario = Scenario(workers=4)
    network = UnrolledNetwork.initialised(0)
    algorithm = LagrangianLearning(network, scenario, NetworkSettings(steps=100, batch_size=64))
    recorder = Recorder()
    Trainer(algorithm).run([recorder])
    assert recorder.of("training of pdx") == ["begin", 100, "end"]
    assert set(recorder.steps[0].figures) == {"Lagrangian"}
    batch, prices = OneScenario(scenario).draw(200, torch.Generator().manual_seed(77))

    @torch.no_grad()
    def reached(candidate: UnrolledNetwork) -> float:
        ends = ChannelFeatures(batch, prices).lagrangian_at_gates(candidate(batch, prices)[-1])
        return float(ends.amax(0).mean())

    shipped = shipped_network()
    assert reached(UnrolledNetwork.initialised(0)) < reached(shipped) - 0.05
    assert reached(network) > reached(shipped) - 0.02


def small_trainer(
    seed: int = 3, steps: int = 150, curriculum: Curriculum | None = None, weights_seed: int = 1
) -> Trainer:
    network = UnrolledNetwork.initialised(weights_seed)
    settings = NetworkSettings(steps=steps, batch_size=4)
    return Trainer(LagrangianLearning(network, PAIR, settings, curriculum=curriculum, seed=seed))


@pytest.mark.parametrize("tuned", [False, True])
def test_interrupted_and_resumed_run_equals_an_uninterrupted_one(tuned, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    whole, parts, resumed = (
        small_trainer(
            curriculum=TunedProblems(AnyScenario(workers=(2, 3))) if tuned else None,
            weights_seed=weights_seed,
        )
        for weights_seed in (1, 1, 2)
    )
    whole.run()
    with pytest.raises(Stop):
        parts.run([StopAt(100, "steps")], checkpoint)
    resumed.resume(checkpoint)
    assert resumed.history[-1].steps == 100  # saved before callbacks were called
    resumed.run()
    assert [epoch.steps for epoch in resumed.history] == [100, 150]
    assert resumed.history == whole.history
    for one, other in zip(
        resumed.algorithm.network.parameters(), whole.algorithm.network.parameters(), strict=True
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 4}, "seed"),
        ({"steps": 300}, r"settings \(steps\)"),
        ({"curriculum": TunedProblems()}, "curriculum"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(changes, named, tmp_path):
    small_trainer().save(tmp_path / "checkpoint.safetensors")
    with pytest.raises(InputError, match=f"another {named}"):
        small_trainer(**changes).resume(tmp_path / "checkpoint.safetensors")


def test_loss_weights_late_iterations_and_the_better_initial_point_most():
    network = UnrolledNetwork.initialised(0)
    batch, prices = AnyScenario().draw(16, torch.Generator().manual_seed(1))
    loss, reached, power = RecordedLosses(network)(batch, prices)
    unit = batch.direct.shape[-1] * price_unit(prices, batch.static_power_w)
    ends = [
        unit.clamp_max(8.0) * ChannelFeatures(batch, prices).lagrangian_at_gates(out)
        for out in network(batch, prices)
    ]
    last = 0.8 * ends[-1].amax(0) + 0.2 * ends[-1].mean(0)
    torch.testing.assert_close(reached, last.mean().detach())
    torch.testing.assert_close(power, network.powers(batch, prices).detach())
    sensitivities = torch.autograd.grad(loss, [network.steps[k].read.weight for k in (0, 4)])
    assert all(bool(part.abs().sum() > 0) for part in sensitivities)
    means = [end.amax(0).mean() for end in ends]
    assert -loss <= max(means) * 2.3 + 1e-6  # the weights add up to 2.3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_loss_of_a_recorded_graph_has_the_same_gradient():
    network = UnrolledNetwork.initialised(0).cuda()
    generator = torch.Generator(device="cuda").manual_seed(1)
    recorded, curriculum = RecordedLosses(network), AnyScenario(workers=(2, 8))
    for _ in range(6):
        batch, prices = curriculum.draw(32, generator)
        radio = batch.direct.new_tensor([batch.waterfall, batch.amplifier_inefficiency])
        priced = (prices.success, prices.rate, prices.efficiency, prices.activation_cost)
        tensors = (batch.direct, batch.cross, batch.pmax_w, batch.static_power_w, radio)
        plain, *_ = NetworkLoss(network)(*tensors, torch.stack(priced))
        loss, *_ = recorded(batch, prices)
        parameters = list(network.parameters())
        for one, other in zip(
            torch.autograd.grad(loss, parameters),
            torch.autograd.grad(plain, parameters),
            strict=True,
        ):
            torch.testing.assert_close(one, other)
