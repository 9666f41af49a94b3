"""Many small linear programs at once, by the revised simplex method.

One program per channel: minimise Σ_k c_k t_k over t ≥ 0 with Σ_k R_ik t_k ≥ w_i for every worker i.
There are as many rows as workers, few enough to keep the inverse of the basis, and columns come in
from outside; general solvers take one program at a time, and most of their time for its set-up.
"""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.schedule.array_module import TensorOperations

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
