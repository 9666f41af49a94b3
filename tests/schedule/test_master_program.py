from __future__ import annotations

import torch
from scipy.optimize import linprog

from feduplink.scheduling import MasterProgram


def programs(count: int, columns: int, workers: int) -> MasterProgram:
    generator = torch.Generator().manual_seed(3)
    rates = torch.rand(count, columns, workers, generator=generator, dtype=torch.float64) ** 4
    alone = torch.diag(torch.rand(workers, generator=generator, dtype=torch.float64) + 0.1)
    surplus = -torch.eye(workers, dtype=torch.float64)
    rates = torch.cat((surplus.expand(count, -1, -1), alone.expand(count, -1, -1), rates), 1)
    cost = 1 + torch.rand(count, columns + 2 * workers, generator=generator, dtype=torch.float64)
    cost[:, :workers] = 0.0
    demand = torch.rand(count, workers, generator=generator, dtype=torch.float64)
    basis = torch.arange(workers, 2 * workers).expand(count, -1).clone()
    return MasterProgram(rates, cost, demand, basis)


def test_many_programs_at_once_against_a_solver():
    master = programs(count=40, columns=60, workers=5)
    master.solve()
    for row in range(40):
        exact = linprog(
            master.cost[row, 5:].numpy(),
            A_ub=-master.rates[row, 5:].T.numpy(),
            b_ub=-master.demand[row].numpy(),
            method="highs",
        )
        torch.testing.assert_close(float(master.value[row]), exact.fun, rtol=1e-9, atol=0.0)
    dual = (master.multipliers * master.demand).sum(-1)
    torch.testing.assert_close(dual, master.value)
    assert (master.multipliers >= -1e-9).all()
    reduced = master.cost - (master.rates @ master.multipliers[..., None])[..., 0]
    assert (reduced >= -1e-8).all()


def test_further_columns_lower_the_value():
    master = programs(count=3, columns=10, workers=4)
    master.solve()
    before = master.value
    master.add(torch.ones(3, 1, 4, dtype=torch.float64), torch.full((3, 1), 1e-3).double())
    master.solve()
    torch.testing.assert_close(master.value, 1e-3 * master.demand.amax(-1))
    assert (master.value < before).all()


def test_who_has_nothing_to_deliver_costs_nothing():
    master = programs(count=2, columns=10, workers=3)
    demand = master.demand.clone()
    demand[:, 1] = 0.0
    basis = torch.tensor([[3, 1, 5]]).expand(2, -1).clone()
    some = MasterProgram(master.rates, master.cost, demand, basis)
    some.solve()
    rates, needed = -master.rates[0, 3:].T.numpy(), -demand[0].numpy()
    exact = linprog(master.cost[0, 3:].numpy(), A_ub=rates, b_ub=needed)
    torch.testing.assert_close(float(some.value[0]), exact.fun)
