from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog

from feduplink.scheduling import SingleProgram


@dataclass
class Columns:
    """What the columns of a program deliver and cost, and who wants how much."""

    rates: npt.NDArray[np.float64]
    cost: npt.NDArray[np.float64]
    demand: npt.NDArray[np.float64]

    def program(self, basis: Sequence[int]) -> SingleProgram:
        return SingleProgram(self.rates, self.cost, self.demand, np.array(basis))

    def value(self) -> float:
        """By HiGHS, without the surplus."""
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
def test_against_a_solver(seed: int, unit: float):
    """Also with next to nothing to deliver."""
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


def test_columns_that_come_later_count_as_if_they_had_been_there():
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


def test_who_has_nothing_to_deliver_costs_nothing():
    columns = drawn(2)
    columns.demand[1] = 0.0
    found = columns.program((5, 1, 7, 8, 9))
    found.solve()
    assert found.value == pytest.approx(columns.value(), rel=1e-9)
