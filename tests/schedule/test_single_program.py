from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from feduplink.schedule.single_program import SingleProgram


def program(seed: int, columns: int = 60, workers: int = 5) -> SingleProgram:
    generator = np.random.default_rng(seed)
    alone = np.diag(generator.random(workers) + 0.1)
    rates = np.concatenate((-np.eye(workers), alone, generator.random((columns, workers)) ** 4))
    cost = 1 + generator.random(len(rates))
    cost[:workers] = 0.0
    demand = generator.random(workers)
    return SingleProgram(rates, cost, demand, np.arange(workers, 2 * workers))


def exact(found: SingleProgram) -> float:
    first = len(found.demand)
    solution = linprog(
        found.cost[first:], A_ub=-found.rates[first:].T, b_ub=-found.demand, method="highs"
    )
    return float(solution.fun)


@pytest.mark.parametrize("seed", range(20))
def test_against_a_solver(seed: int):
    found = program(seed)
    found.solve()
    assert found.value == pytest.approx(exact(found), rel=1e-9)
    assert found.multipliers @ found.demand == pytest.approx(found.value, rel=1e-9)
    np.testing.assert_allclose(
        found.column_durations @ found.rates, found.demand, rtol=1e-9, atol=1e-12
    )
    assert (found.cost - found.rates @ found.multipliers >= -1e-8).all()


def test_columns_that_come_later_count_as_if_they_had_been_there():
    found = program(1)
    found.solve()
    generator = np.random.default_rng(7)
    for _ in range(5):
        found.add(generator.random((10, 5)), 1 + generator.random(10))
        found.solve()
        assert found.value == pytest.approx(exact(found), rel=1e-9)


def test_who_has_nothing_to_deliver_costs_nothing():
    found = program(2)
    demand = found.demand.copy()
    demand[1] = 0.0
    some = SingleProgram(found.rates, found.cost, demand, np.array([5, 1, 7, 8, 9]))
    some.solve()
    assert some.value == pytest.approx(exact(some), rel=1e-9)
