"""Linear programs over phases, by the simplex method: many rounds in PyTorch, one round in NumPy.

One program per channel: minimise Σ_k c_k t_k over t ≥ 0 subject to Σ_k R_ik t_k ≥ w_i for every
worker i. The programs have few rows (one per worker), so the inverse of the basis is stored, and
columns are added during column generation. General solvers handle one program at a time and spend
most of their time on its set-up.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from feduplink.scheduling.array_module import ArrayOperations, TensorOperations

#: A column enters the basis if its reduced cost is below the negative of this.
REDUCED_COST_TOLERANCE = 1e-9
#: Smallest entry of a column that limits a step.
MIN_PIVOT = 1e-10
#: Maximum number of pivots per call and row, in case a degenerate program cycles.
MAX_PIVOTS_PER_ROW = 50


class MasterProgram:
    """The programs of N channels over the columns known so far.

    Args:
        rates: R, delivered per second of each column, (N, K, L), nats/Hz.
        cost: c, cost per second of each column, (N, K).
        demand: w ≥ 0, (N, L), nats/Hz.
        basis: indices of the columns of a feasible basis, (N, L).

    Attributes:
        rates, cost, demand: as above, with the columns added since.
        basis: indices of the columns in the basis, (N, L).
        inverse: inverse of the basis matrix, (N, L, L), one row per basic column.
    """

    def __init__(self, rates: Tensor, cost: Tensor, demand: Tensor, basis: Tensor) -> None:
        self.rates, self.cost, self.demand, self.basis = rates, cost, demand, basis
        self._refactor()

    def add(self, rates: Tensor, cost: Tensor) -> None:
        """Add columns with rates (N, M, L) in nats/Hz and costs (N, M), both per second."""
        self.rates = torch.cat((self.rates, rates), 1)
        self.cost = torch.cat((self.cost, cost), 1)

    def of_basis(self, columns: Tensor) -> Tensor:
        """Select the entries of the basic columns, (N, L, ...), from those of all, (N, K, ...)."""
        return TensorOperations.take_rows(columns, self.basis)

    @property
    def column_durations(self) -> Tensor:
        """Durations t of all columns, (N, K), s."""
        return torch.zeros_like(self.cost).scatter_(1, self.basis, self.durations)

    @property
    def durations(self) -> Tensor:
        """Durations t of the basic columns, (N, L), s."""
        return (self.inverse @ self.demand[..., None])[..., 0].clamp_min(0.0)

    @property
    def multipliers(self) -> Tensor:
        """Dual variables λ of the demands at the present basis, (N, L)."""
        return (self.of_basis(self.cost)[:, None] @ self.inverse)[:, 0]

    @property
    def value(self) -> Tensor:
        """Objective Σ_k c_k t_k, (N,)."""
        return (self.of_basis(self.cost) * self.durations).sum(-1)

    def solve(self) -> None:
        """Pivot until no column has a negative reduced cost."""
        workers = self.demand.shape[-1]
        for _ in range(MAX_PIVOTS_PER_ROW * workers):
            reduced = self.cost - (self.rates @ self.multipliers[..., None])[..., 0]
            least, entering = reduced.min(-1)
            rows = (least < -REDUCED_COST_TOLERANCE).nonzero()[:, 0]
            if len(rows) == 0:
                break
            self._pivot(rows, entering[rows])
        self._refactor()

    def _pivot(self, rows: Tensor, entering: Tensor) -> None:
        """Let column ``entering`` (M,) enter the bases of the programs ``rows`` (M,)."""
        inverse = self.inverse[rows]
        column = (inverse @ self.rates[rows, entering][..., None])[..., 0]
        level = (inverse @ self.demand[rows][..., None])[..., 0].clamp_min(0.0)
        limits = column > MIN_PIVOT
        ratio = torch.where(limits, level / torch.where(limits, column, 1.0), torch.inf)
        # Ties are broken by the largest entry, which keeps the basis well conditioned.
        least = ratio.min(-1, keepdim=True).values
        tied = ratio <= least * (1 + 1e-9) + 1e-15
        leaving = torch.where(tied & limits, column, -torch.inf).argmax(-1)
        programs = torch.arange(len(rows), device=rows.device)
        pivot_row = inverse[programs, leaving] / column[programs, leaving][:, None]
        inverse = inverse - column[..., None] * pivot_row[:, None]
        inverse[programs, leaving] = pivot_row
        self.inverse[rows] = inverse
        self.basis[rows, leaving] = entering

    def _refactor(self) -> None:
        """Recompute the inverse of the basis, which removes accumulated rounding errors."""
        self.inverse: Tensor = torch.linalg.inv(self.of_basis(self.rates).mT)


#: Added to basic durations, so that ties at 0 are broken by the largest entry.
_DEGENERACY_OFFSET = ArrayOperations.float64(1e-12)
#: Lower clamp of column entries in the ratio test.
_MIN_RATIO_ENTRY = ArrayOperations.float64(1e-30)

Floats = npt.NDArray[np.float64]


class SingleProgram:
    """The program of one round, in NumPy, with the interface of :class:`MasterProgram`.

    With few columns, updating the full simplex tableau takes fewer operations than the revised
    simplex method. The tableau holds all columns and the demand in terms of the basis, and the
    reduced costs in
    its last row. The first L columns must be the surplus variables at no cost: their entries are
    the negative inverse of the basis and the multipliers.

    Args:
        rates: R, delivered per second of each column, (K, L), nats/Hz.
        cost: c, cost per second of each column, (K,).
        demand: w ≥ 0, (L,), nats/Hz.
        basis: indices of the columns of a feasible basis, (L,); the i-th must deliver the demand
            of worker i only.

    Attributes:
        cost, demand: as above, with the columns added since.
        basis: indices of the columns in the basis, (L,).
    """

    def __init__(
        self, rates: Floats, cost: Floats, demand: Floats, basis: npt.NDArray[np.int64]
    ) -> None:
        self.cost, self.demand, self.basis = cost, demand, basis
        inverse = 1 / rates[basis].diagonal()
        self._tableau = np.empty((len(demand) + 1, len(cost) + 1))
        # Demands relative to the largest, so that tolerances do not depend on the number of bits.
        self._largest_demand = np.maximum.reduce(demand) or 1.0
        self._tableau[:-1, 0] = inverse * (demand / self._largest_demand)
        self._tableau[:-1, 1:] = inverse[:, None] * rates.T
        self._tableau[-1, 0] = 0.0
        self._tableau[-1, 1:] = cost - rates @ (cost[basis] * inverse)

    def add(self, rates: Floats, cost: Floats) -> None:
        """Add columns with rates (M, L) in nats/Hz and costs (M,), both per second."""
        self.cost = np.concatenate((self.cost, cost))
        columns = -self._tableau[:, 1 : len(self.demand) + 1] @ rates.T
        columns[-1] += cost
        self._tableau = np.concatenate((self._tableau, columns), 1)

    def of_basis(self, columns: Floats) -> Floats:
        """Select the entries of the basic columns, (L, ...), from those of all, (K, ...)."""
        return columns[self.basis]

    @property
    def durations(self) -> Floats:
        """Durations t of the basic columns, (L,), s."""
        return np.maximum(self._tableau[:-1, 0], 0.0) * self._largest_demand

    @property
    def multipliers(self) -> Floats:
        """Dual variables λ of the demands at the present basis, (L,)."""
        return self._tableau[-1, 1 : len(self.demand) + 1]

    @property
    def column_durations(self) -> Floats:
        """Durations t of all columns, (K,), s."""
        durations = np.zeros_like(self.cost)
        durations[self.basis] = self.durations
        return durations

    @property
    def value(self) -> float:
        """Objective Σ_k c_k t_k."""
        return float(self.cost[self.basis] @ self.durations)

    def solve(self) -> None:
        """Pivot until no column has a negative reduced cost."""
        tableau, basis = self._tableau, self.basis
        reduced, level = tableau[-1, 1:], tableau[:-1, 0]
        for _ in range(MAX_PIVOTS_PER_ROW * len(self.demand)):
            entering = reduced.argmin()
            if reduced[entering] >= -REDUCED_COST_TOLERANCE:
                break
            column = tableau[:, entering + 1].copy()
            # Entries of 0 or less do not limit the step, even at a duration of 0.
            ratio = (level + _DEGENERACY_OFFSET) / np.maximum(column[:-1], _MIN_RATIO_ENTRY)
            leaving = ratio.argmin()
            row = tableau[leaving] / column[leaving]
            tableau -= column[:, None] * row
            tableau[leaving] = row
            basis[leaving] = entering
