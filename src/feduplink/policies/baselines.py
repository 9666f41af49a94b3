"""Baselines: ``ideal``, ``max``, ``rand`` and ``orth``, and the one-shot selection of workers."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from feduplink import link
from feduplink.policies.base import PowerPolicy, TuningContext
from feduplink.problem import Problem
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario

#: Relative error of rates in single precision.
_ROUNDING = 1e-6


class SelectingPolicy(PowerPolicy):
    """A policy that sets powers without a look at the constraints, then selects workers."""

    #: Whether workers that miss a threshold are silenced.
    selects: ClassVar[bool] = True

    @property
    def fixed_workers(self) -> int | None:
        """Bound to the scenario's size only by constants or thresholds listed per worker."""
        return super().fixed_workers or self.scenario.listed_per_worker("rate_min", "ee_min")

    def powers(self, csi: Tensor) -> Tensor:
        """Powers of the selected workers, (N, L, L) to (N, L), W."""
        power = self.candidate_powers(csi)
        return select(power, csi, self.scenario) if self.selects else power

    @abstractmethod
    def candidate_powers(self, csi: Tensor) -> Tensor:
        """Powers before selection, (N, L, L) to (N, L), W."""


def select(power: Tensor, csi: Tensor, scenario: Scenario) -> Tensor:
    """Silence the workers whose rate, energy efficiency or other measure misses its threshold.

    All are computed once, with all candidates on the air: a worker that is dropped does not
    give the others a second chance. (N, L) and (N, L, L) to (N, L), W. For another number of
    workers than the scenario's its thresholds must not be listed per worker.

    A power can be chosen to sit exactly on a threshold; rounding must not silence it.
    """
    if csi.shape[-1] != scenario.workers:
        # What may be listed per worker and does not matter here, so that it is not in the way.
        unread = {"weights": "ones", "bits_per_weight": 1.0, "compute_energy_j_per_bit": 0.0}
        scenario = scenario.replace(workers=csi.shape[-1], **unread)
    sinr = link.sinr(csi, power)
    meets = torch.ones_like(power, dtype=torch.bool)
    for constraint in Problem.from_scenario(scenario).constraints:
        least = constraint.with_margin(-_ROUNDING).threshold.to(power)
        met = constraint.value(sinr, power) >= least
        meets &= met | ~constraint.active.to(power.device)
    return torch.where(meets, power, 0.0)


class FullPower(PowerPolicy):
    """p_i = Pmax for every worker."""

    name = "max"
    summary = "everyone at full power"
    by_default = True
    colour, marker = "#78614D", "s"

    def powers(self, csi: Tensor) -> Tensor:
        """Pmax for all, (N, L, L) to (N, L), W."""
        return self.scenario.max_power.to(csi).expand(csi.shape[:-1])


class Ideal(FullPower):
    """Every upload arrives; time and energy are undefined."""

    name = "ideal"
    summary = "every upload arrives, at no cost"
    colour, marker = "#566682", "h"
    is_lossless = True


class RandomPower(SelectingPolicy):
    """p_i uniform in (0, Pmax), then one-shot selection.

    Every call draws anew; two policies with the same seed draw the same sequence.
    """

    name = "rand"
    summary = "random powers; who would miss a threshold stays silent"
    by_default = True
    colour, marker = "#9A8A89", "v"

    def __init__(self, scenario: Scenario, *, seed: int = 0) -> None:
        super().__init__(scenario)
        self.seed = seed
        self._generator = torch_generator(seed, "policy")

    @classmethod
    def make(cls, scenario: Scenario, context: TuningContext) -> Self:
        """Random powers of the seed."""
        return cls(scenario, seed=context.seed)

    def tensors(self) -> dict[str, Tensor]:
        """The seed."""
        return {"seed": torch.tensor(self.seed)}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """A policy at the start of its sequence."""
        return cls(scenario, seed=int(tensors["seed"]))

    def candidate_powers(self, csi: Tensor) -> Tensor:
        """Random powers of all workers, (N, L, L) to (N, L), W."""
        unit = torch.rand(csi.shape[:-1], generator=self._generator).to(csi)
        return unit * self.scenario.max_power.to(csi)


class UnselectedRandomPower(RandomPower):
    """``rand`` in the reading of the paper's code: nobody is silenced."""

    name = "rand:unselected"
    summary = "random powers, and everyone sends"
    selects = False


class Orthogonal(SelectingPolicy):
    """p_i = min(Pmax, P_E,i), then one-shot selection.

    P_E,i is the largest power with EE_i ≥ e0 when nobody else is on the air.
    """

    name = "orth"
    summary = "best powers without interference; who would miss a threshold stays silent"
    by_default = True
    colour, marker = "#FF5B00", "^"

    def candidate_powers(self, csi: Tensor) -> Tensor:
        """min(Pmax, P_E) of all workers, (N, L, L) to (N, L), W."""
        direct = csi.diagonal(dim1=-2, dim2=-1)
        limit = largest_efficient_power(
            direct,
            torch.as_tensor(self.scenario.ee_min, dtype=torch.float64),
            self.scenario.static_power,
            self.scenario.amplifier_inefficiency,
        )
        return torch.minimum(limit, self.scenario.max_power.to(limit))


class UnselectedOrthogonal(Orthogonal):
    """``orth`` in the reading of the paper's code: nobody is silenced."""

    name = "orth:unselected"
    summary = "best powers without interference, and everyone sends"
    selects = False


def largest_efficient_power(
    direct_gain: Tensor, ee_min: Tensor, static_power_w: Tensor, amplifier_inefficiency: float
) -> Tensor:
    """Largest p with ln(1 + α p) ≥ e0 (μ p + P_c), W; 0 if there is none, ∞ if e0 = 0.

    With u = 1 + α p and c = e0 μ / α the equality reads −c u e^(−c u) = −c e^(e0 P_c − c); its
    larger root is the lower branch of Lambert's function, u = −W₋₁(−c e^(e0 P_c − c)) / c.
    """
    # Here: it takes a fifth of a second to import, and no other policy needs it.
    from scipy.special import lambertw

    alpha = direct_gain.detach().cpu().double().numpy()
    e0 = ee_min.numpy()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        c = e0 * amplifier_inefficiency / alpha
        argument = -c * np.exp(e0 * static_power_w.numpy() - c)
        # For c ≥ 1 the efficiency only falls with p; under −1/e there is no intersection.
        solvable = (c < 1) & (argument >= -np.exp(-1.0))
        root = -lambertw(np.where(solvable, argument, -0.1), k=-1).real / c
        power = np.where(solvable, (root - 1) / alpha, 0.0)
    power = np.where(e0 == 0, np.inf, power)
    return torch.from_numpy(np.clip(power, 0.0, None)).to(direct_gain)
