from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.optimize import linprog

from feduplink.scheduling import MasterProgram, SingleProgram


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


def test_batched_programs_agree_with_highs():
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


def test_adding_columns_lowers_the_value():
    master = programs(count=3, columns=10, workers=4)
    master.solve()
    before = master.value
    master.add(torch.ones(3, 1, 4, dtype=torch.float64), torch.full((3, 1), 1e-3).double())
    master.solve()
    torch.testing.assert_close(master.value, 1e-3 * master.demand.amax(-1))
    assert (master.value < before).all()


def test_zero_demand_costs_nothing():
    master = programs(count=2, columns=10, workers=3)
    demand = master.demand.clone()
    demand[:, 1] = 0.0
    basis = torch.tensor([[3, 1, 5]]).expand(2, -1).clone()
    some = MasterProgram(master.rates, master.cost, demand, basis)
    some.solve()
    rates, needed = -master.rates[0, 3:].T.numpy(), -demand[0].numpy()
    exact = linprog(master.cost[0, 3:].numpy(), A_ub=rates, b_ub=needed)
    torch.testing.assert_close(float(some.value[0]), exact.fun)


@dataclass
class Columns:
    """Rates and costs of the columns of a program, and the demand."""

    rates: npt.NDArray[np.float64]
    cost: npt.NDArray[np.float64]
    demand: npt.NDArray[np.float64]

    def program(self, basis: Sequence[int]) -> SingleProgram:
        return SingleProgram(self.rates, self.cost, self.demand, np.array(basis))

    def value(self) -> float:
        """The optimum by HiGHS, without the surplus columns."""
        first = len(self.demand)
        solution = linprog(
            self.cost[first:], A_ub=-self.rates[first:].T, b_ub=-self.demand, method="highs"
        )
        return float(solution.fun)


def drawn(seed: int, count: int = 60, workers: int = 5) -> Columns:
    generator = np.random.default_rng(seed)
    alone = np.diag(generator.random(workers) + 0.1)
    rates = np.concatenate((-np.eye(workers), alone, generator.random((count, workers)) ** 4))
    cost = 1 + generator.random(len(rates))
    cost[:workers] = 0.0
    return Columns(rates, cost, generator.random(workers))


@pytest.mark.parametrize("unit", [1.0, 1e-15])
@pytest.mark.parametrize("seed", range(20))
def test_a_single_program_agrees_with_highs(seed: int, unit: float):
    """Also at a tiny demand."""
    columns = drawn(seed)
    expected = unit * columns.value()
    columns.demand *= unit
    found = columns.program(range(5, 10))
    found.solve()
    assert found.value == pytest.approx(expected, rel=1e-9)
    assert found.multipliers @ found.demand == pytest.approx(found.value, rel=1e-9)
    np.testing.assert_allclose(
        found.column_durations @ columns.rates, found.demand, rtol=1e-9, atol=1e-12 * unit
    )
    assert (found.cost - columns.rates @ found.multipliers >= -1e-8).all()


def test_columns_added_later_give_the_same_optimum():
    columns = drawn(1)
    found = columns.program(range(5, 10))
    found.solve()
    generator = np.random.default_rng(7)
    for _ in range(5):
        rates, cost = generator.random((10, 5)), 1 + generator.random(10)
        columns.rates = np.concatenate((columns.rates, rates))
        columns.cost = np.concatenate((columns.cost, cost))
        found.add(rates, cost)
        found.solve()
        assert found.value == pytest.approx(columns.value(), rel=1e-9)


def test_zero_demand_costs_nothing_in_a_single_program():
    columns = drawn(2)
    columns.demand[1] = 0.0
    found = columns.program((5, 1, 7, 8, 9))
    found.solve()
    assert found.value == pytest.approx(columns.value(), rel=1e-9)
