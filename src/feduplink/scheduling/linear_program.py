"""The linear program over phases, by the simplex method: many rounds at once in PyTorch, one round
in NumPy.

One program per channel: minimise Σ_k c_k t_k over t ≥ 0 with Σ_k R_ik t_k ≥ w_i for every worker i.
There are as many rows as workers, few enough to keep the inverse of the basis, and columns come in
from outside; general solvers take one program at a time, and most of their time for its set-up.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from feduplink.scheduling.array_module import ArrayOperations, TensorOperations

#: A column enters the basis if its reduced cost is below minus this.
OPTIMAL = 1e-9
#: Entries of a column in the basis below this do not limit a step.
SMALL = 1e-10
#: Pivots per call and row at most, should a degenerate program go round in circles.
PIVOTS_PER_ROW = 50


class MasterProgram:
    """The programs of N channels over the columns known so far.

    Attributes:
        rates: R, what a second of each column delivers, (N, K, L).
        cost: c, what it costs, (N, K).
        demand: w ≥ 0, (N, L).
        basis: which columns are in the basis, (N, L); feasible at the start.
        inverse: that of the basis, rows of columns, (N, L, L).
    """

    def __init__(self, rates: Tensor, cost: Tensor, demand: Tensor, basis: Tensor) -> None:
        self.rates, self.cost, self.demand, self.basis = rates, cost, demand, basis
        self._refactor()

    def add(self, rates: Tensor, cost: Tensor) -> None:
        """Further columns, (N, M, L) and (N, M)."""
        self.rates = torch.cat((self.rates, rates), 1)
        self.cost = torch.cat((self.cost, cost), 1)

    def of_basis(self, columns: Tensor) -> Tensor:
        """Those that are in the basis, (N, L, ...), of one entry per column, (N, K, ...)."""
        return TensorOperations.take_rows(columns, self.basis)

    @property
    def column_durations(self) -> Tensor:
        """t of all columns, (N, K)."""
        return torch.zeros_like(self.cost).scatter_(1, self.basis, self.durations)

    @property
    def durations(self) -> Tensor:
        """t of the columns in the basis, (N, L)."""
        return (self.inverse @ self.demand[..., None])[..., 0].clamp_min(0.0)

    @property
    def multipliers(self) -> Tensor:
        """λ of the demands at the basis, (N, L)."""
        return (self.of_basis(self.cost)[:, None] @ self.inverse)[:, 0]

    @property
    def value(self) -> Tensor:
        """Σ_k c_k t_k, (N,)."""
        return (self.of_basis(self.cost) * self.durations).sum(-1)

    def solve(self) -> None:
        """Pivot until no known column would lower the value."""
        workers = self.demand.shape[-1]
        for _ in range(PIVOTS_PER_ROW * workers):
            reduced = self.cost - (self.rates @ self.multipliers[..., None])[..., 0]
            least, entering = reduced.min(-1)
            rows = (least < -OPTIMAL).nonzero()[:, 0]
            if len(rows) == 0:
                break
            self._pivot(rows, entering[rows])
        self._refactor()

    def _pivot(self, rows: Tensor, entering: Tensor) -> None:
        """Let a column enter the basis of each of some programs, (M,) each."""
        inverse = self.inverse[rows]
        column = (inverse @ self.rates[rows, entering][..., None])[..., 0]
        level = (inverse @ self.demand[rows][..., None])[..., 0].clamp_min(0.0)
        limits = column > SMALL
        ratio = torch.where(limits, level / torch.where(limits, column, 1.0), torch.inf)
        # Of equal ratios the one with the largest entry keeps the basis well conditioned.
        least = ratio.min(-1, keepdim=True).values
        tied = ratio <= least * (1 + 1e-9) + 1e-15
        leaving = torch.where(tied & limits, column, -torch.inf).argmax(-1)
        each = torch.arange(len(rows), device=rows.device)
        pivot_row = inverse[each, leaving] / column[each, leaving][:, None]
        inverse = inverse - column[..., None] * pivot_row[:, None]
        inverse[each, leaving] = pivot_row
        self.inverse[rows] = inverse
        self.basis[rows, leaving] = entering

    def _refactor(self) -> None:
        self.inverse: Tensor = torch.linalg.inv(self.of_basis(self.rates).mT)


#: Added to levels: of those that are 0 the one with the largest entry leaves.
_DEGENERATE = ArrayOperations.float64(1e-12)
#: In the place of entries of 0 or less, which do not limit a step.
_NO_LIMIT = ArrayOperations.float64(1e-30)

Floats = npt.NDArray[np.float64]


class SingleProgram:
    """As :class:`feduplink.scheduling.linear_program.MasterProgram`, of one round.

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
