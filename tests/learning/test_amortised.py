from __future__ import annotations

import pytest
import torch

from feduplink import InputError, Scenario, load_policy
from feduplink.learning import Curriculum, NetworkSettings, train_network
from feduplink.policies import UnrolledNetwork, UnrolledPolicy
from feduplink.policies.pdx import lagrangian_at_gates


def test_a_scenario_of_its_own_keeps_its_fields_and_varies_the_prices():
    scenario = Scenario(workers=5, pmax_dbw=-30, interference=2, weights="uniform")
    cell, prices = Curriculum.only(scenario).draw(50, torch.Generator().manual_seed(0))
    assert cell.direct.shape == (50, 5)
    assert cell.pmax_w == pytest.approx(scenario.pmax_w)
    torch.testing.assert_close(prices.success, torch.full((50, 5), 0.2))
    fee = prices.rate * 0.7 + prices.efficiency * 55.0
    torch.testing.assert_close(prices.fee, fee, rtol=1e-5, atol=1e-8)
    assert len(prices.rate.unique()) > 50


def test_everything_varies_size_power_and_weights():
    curriculum, generator = Curriculum.everything(), torch.Generator().manual_seed(0)
    cells = [curriculum.draw(4, generator) for _ in range(40)]
    assert {cell.direct.shape[1] for cell, _ in cells} >= {4, 8, 16, 32}
    assert max(c.pmax_w for c, _ in cells) > 100 * min(c.pmax_w for c, _ in cells)
    for _, prices in cells:
        torch.testing.assert_close(prices.success.sum(-1), torch.ones(4))


def test_a_short_training_comes_near_the_maximum():
    scenario = Scenario(workers=4)
    network = UnrolledNetwork.initialised(0)
    curriculum = Curriculum.only(scenario)
    told = []
    train_network(
        network,
        curriculum,
        NetworkSettings(steps=100, batch_size=64),
        progress=lambda step, value: told.append((step, value)),
    )
    assert [step for step, _ in told] == [100]
    cell, prices = curriculum.draw(200, torch.Generator().manual_seed(77))

    @torch.no_grad()
    def reached(candidate: UnrolledNetwork) -> float:
        return float(lagrangian_at_gates(cell, prices, candidate(cell, prices)[-1]).mean())

    shipped = load_policy("pdx")
    assert isinstance(shipped, UnrolledPolicy)
    assert reached(UnrolledNetwork.initialised(0)) < reached(shipped.network) - 0.05
    assert reached(network) > reached(shipped.network) - 0.02


def test_training_is_repeatable():
    networks = [UnrolledNetwork.initialised(1) for _ in range(2)]
    for network in networks:
        train_network(
            network,
            Curriculum.only(Scenario(workers=2)),
            NetworkSettings(steps=100, batch_size=4),
            seed=3,
        )
    for a, b in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
        assert torch.equal(a, b)


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match="learning_rate"):
        NetworkSettings(learning_rate=-1)
