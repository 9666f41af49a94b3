"""The linear program of one round, by the simplex method in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from feduplink.schedule.master_program import OPTIMAL, PIVOTS_PER_ROW, SMALL

Floats = npt.NDArray[np.float64]


class SingleProgram:
    """As :class:`feduplink.schedule.master_program.MasterProgram`, of one round.

    With few columns the whole tableau takes fewer operations than the inverse of the basis: in the
    terms of the basis all columns and the demand, and below them the reduced costs. The first L
    columns have to be the surplus of each worker, at no cost: there the tableau has minus the
    inverse, and the multipliers.

    Attributes:
        rates: R, what a second of each column delivers, (K, L).
        cost: c, what it costs, (K,).
        demand: w ≥ 0, (L,).
        basis: which columns are in the basis, (L,); feasible at the start.
    """

    def __init__(
        self, rates: Floats, cost: Floats, demand: Floats, basis: npt.NDArray[np.int64]
    ) -> None:
        self.rates, self.cost, self.demand, self.basis = rates, cost, demand, basis
        workers = len(demand)
        inverse = np.linalg.inv(rates[basis].T)
        self._tableau = np.zeros((workers + 1, len(cost) + 1))
        self._tableau[:-1, 0] = inverse @ demand
        self._tableau[:-1, 1:] = inverse @ rates.T
        self._tableau[-1, 1:] = cost - (cost[basis] @ inverse) @ rates.T

    def add(self, rates: Floats, cost: Floats) -> None:
        """Further columns, (M, L) and (M,)."""
        self.rates = np.concatenate((self.rates, rates))
        self.cost = np.concatenate((self.cost, cost))
        columns = -self._tableau[:, 1 : len(self.demand) + 1] @ rates.T
        columns[-1] += cost
        self._tableau = np.concatenate((self._tableau, columns), 1)

    def of_basis(self, columns: Floats) -> Floats:
        """Those that are in the basis, (L, ...), of one entry per column, (K, ...)."""
        return columns[self.basis]

    @property
    def durations(self) -> Floats:
        """t of the columns in the basis, (L,)."""
        return np.maximum(self._tableau[:-1, 0], 0.0)

    @property
    def multipliers(self) -> Floats:
        """λ of the demands at the basis, (L,)."""
        return self._tableau[-1, 1 : len(self.demand) + 1]

    @property
    def column_durations(self) -> Floats:
        """t of all columns, (K,)."""
        durations = np.zeros_like(self.cost)
        durations[self.basis] = self.durations
        return durations

    @property
    def value(self) -> float:
        """Σ_k c_k t_k."""
        return float(self.cost[self.basis] @ self.durations)

    def solve(self) -> None:
        """Pivot until no known column would lower the value."""
        tableau = self._tableau
        reduced, level = tableau[-1, 1:], tableau[:-1, 0]
        for _ in range(PIVOTS_PER_ROW * len(self.demand)):
            entering = reduced.argmin()
            if reduced[entering] >= -OPTIMAL:
                break
            column = tableau[:, entering + 1].copy()
            ratio = np.where(column[:-1] > SMALL, level / np.maximum(column[:-1], SMALL), np.inf)
            leaving = ratio.argmin()
            row = tableau[leaving] / column[leaving]
            tableau -= column[:, None] * row
            tableau[leaving] = row
            self.basis[leaving] = entering
