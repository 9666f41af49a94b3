from __future__ import annotations

import pytest
import torch

from feduplink import InputError, Scenario, load_policy
from feduplink.learning import Curriculum, NetworkSettings, NetworkTraining
from feduplink.policies import UnrolledNetwork, UnrolledPolicy
from feduplink.policies.pdx import lagrangian_at_gates
from observing.recorder import Recorder, Stop, StopAt


def test_a_scenario_of_its_own_keeps_its_fields_and_varies_the_prices():
    scenario = Scenario(workers=5, pmax_dbw=-30, interference=2, weights="uniform")
    cell, prices = Curriculum.only(scenario).draw(50, torch.Generator().manual_seed(0))
    assert cell.direct.shape == (50, 5)
    assert cell.pmax_w.tolist() == pytest.approx([float(scenario.pmax_w)] * 5)
    torch.testing.assert_close(prices.success, torch.full((50, 5), 0.2))
    fee = prices.rate * 0.7 + prices.efficiency * 55.0
    torch.testing.assert_close(prices.fee, fee, rtol=1e-5, atol=1e-8)
    assert len(prices.rate.unique()) > 50


def test_everything_varies_size_power_and_weights():
    curriculum, generator = Curriculum.everything(), torch.Generator().manual_seed(0)
    cells = [curriculum.draw(4, generator) for _ in range(40)]
    assert {cell.direct.shape[1] for cell, _ in cells} >= {4, 8, 16, 32}
    pmax = torch.stack([cell.pmax_w[0] for cell, _ in cells])
    assert pmax.max() > 100 * pmax.min()
    for _, prices in cells:
        torch.testing.assert_close(prices.success.sum(-1), torch.ones(4))


def test_a_short_training_comes_near_the_maximum():
    scenario = Scenario(workers=4)
    network = UnrolledNetwork.initialised(0)
    curriculum = Curriculum.only(scenario)
    recorder = Recorder()
    training = NetworkTraining(network, curriculum, NetworkSettings(steps=100, batch_size=64))
    training.run([recorder])
    assert [step.done for step in recorder.steps] == [100]
    cell, prices = curriculum.draw(200, torch.Generator().manual_seed(77))

    @torch.no_grad()
    def reached(candidate: UnrolledNetwork) -> float:
        return float(lagrangian_at_gates(cell, prices, candidate(cell, prices)[-1]).mean())

    shipped = load_policy("pdx")
    assert isinstance(shipped, UnrolledPolicy)
    assert reached(UnrolledNetwork.initialised(0)) < reached(shipped.network) - 0.05
    assert reached(network) > reached(shipped.network) - 0.02


def small_training(seed: int = 3, steps: int = 200) -> NetworkTraining:
    return NetworkTraining(
        UnrolledNetwork.initialised(1),
        Curriculum.only(Scenario(workers=2)),
        NetworkSettings(steps=steps, batch_size=4),
        seed=seed,
    )


def same(one: NetworkTraining, other: NetworkTraining) -> bool:
    pairs = zip(one.network.parameters(), other.network.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_interrupted_and_resumed_is_the_same_as_undisturbed(tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    whole, again, parts, resumed = (small_training() for _ in range(4))
    whole.run()
    again.run()
    assert same(whole, again)
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


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match="learning_rate"):
        NetworkSettings(learning_rate=-1)
