"""The linear program of one round, by the simplex method in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from feduplink.schedule.array_module import ArrayOperations
from feduplink.schedule.master_program import OPTIMAL, PIVOTS_PER_ROW

#: Added to levels: of those that are 0 the one with the largest entry leaves.
_DEGENERATE = ArrayOperations.float64(1e-12)
#: In the place of entries of 0 or less, which do not limit a step.
_NO_LIMIT = ArrayOperations.float64(1e-30)

Floats = npt.NDArray[np.float64]


class SingleProgram:
    """As :class:`feduplink.schedule.master_program.MasterProgram`, of one round.

    With few columns the whole tableau takes fewer operations than the inverse of the basis: in the
    terms of the basis all columns and the demand, and below them the reduced costs. The first L
    columns have to be the surplus of each worker, at no cost: there the tableau has minus the
    inverse, and the multipliers.

    Attributes:
        cost: c, what a second of each column costs, (K,).
        demand: w ≥ 0, (L,).
        basis: which columns are in the basis, (L,); at the start feasible, and the i-th of no other
            worker's than worker i's.
    """

    def __init__(
        self, rates: Floats, cost: Floats, demand: Floats, basis: npt.NDArray[np.int64]
    ) -> None:
        self.cost, self.demand, self.basis = cost, demand, basis
        inverse = 1 / rates[basis].diagonal()
        self._tableau = np.empty((len(demand) + 1, len(cost) + 1))
        # Relative to the largest demand, however few bits that is.
        self._unit = np.maximum.reduce(demand) or 1.0
        self._tableau[:-1, 0] = inverse * (demand / self._unit)
        self._tableau[:-1, 1:] = inverse[:, None] * rates.T
        self._tableau[-1, 0] = 0.0
        self._tableau[-1, 1:] = cost - rates @ (cost[basis] * inverse)

    def add(self, rates: Floats, cost: Floats) -> None:
        """Further columns, what they deliver (M, L) and cost (M,)."""
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
        return np.maximum(self._tableau[:-1, 0], 0.0) * self._unit

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
        tableau, basis = self._tableau, self.basis
        reduced, level = tableau[-1, 1:], tableau[:-1, 0]
        for _ in range(PIVOTS_PER_ROW * len(self.demand)):
            entering = reduced.argmin()
            if reduced[entering] >= -OPTIMAL:
                break
            column = tableau[:, entering + 1].copy()
            # Where entries are 0 or less nothing limits the step, not even a level of 0.
            ratio = (level + _DEGENERATE) / np.maximum(column[:-1], _NO_LIMIT)
            leaving = ratio.argmin()
            row = tableau[leaving] / column[leaving]
            tableau -= column[:, None] * row
            tableau[leaving] = row
            basis[leaving] = entering
