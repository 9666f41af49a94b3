"""Baseline policies ``ideal``, ``max``, ``rand`` and ``orth``, and one-shot worker selection."""

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

#: Relative tolerance of thresholds, for rounding of rates in single precision.
_THRESHOLD_TOL = 1e-6


class SelectingPolicy(PowerPolicy):
    """Abstract base class of policies that allocate powers first and then select workers.

    A subclass implements :meth:`candidate_powers`, which ignores the constraints.

    Attributes:
        selects: whether :func:`select` silences workers below a threshold.
    """

    selects: ClassVar[bool] = True

    @property
    def fixed_workers(self) -> int | None:
        """Required number of workers if the scenario lists constants or thresholds per worker."""
        return super().fixed_workers or self.scenario.listed_per_worker("rate_min", "ee_min")

    def powers(self, csi: Tensor) -> Tensor:
        """Powers of the selected workers, (N, L, L) to (N, L), W."""
        power = self.candidate_powers(csi)
        return select(power, csi, self.scenario) if self.selects else power

    @abstractmethod
    def candidate_powers(self, csi: Tensor) -> Tensor:
        """Allocate powers before the selection.

        Args:
            csi: observed CSI, (N, L, L), in 1/W.

        Returns:
            Powers in [0, Pmax], (N, L), W.
        """


def select(power: Tensor, csi: Tensor, scenario: Scenario) -> Tensor:
    """Silence the workers that violate a constraint, in one pass.

    Every constraint measure is computed once, with all workers transmitting at ``power``. Workers
    are not reconsidered after others have been silenced. A relative tolerance of 1e-6 keeps
    workers whose measure equals its threshold.

    Args:
        power: transmit powers, (N, L), W.
        csi: CSI H in units of 1/W, (N, L, L).
        scenario: defines the constraints. If its number of workers is not L, its thresholds must
            not be listed per worker.

    Returns:
        The powers, zero for silenced workers, (N, L), W.

    >>> scenario = Scenario(workers=2, rate_min=1.0, ee_min=0.0)
    >>> csi = torch.tensor([[[500.0, 1.0], [1.0, 50.0]]])
    >>> select(torch.full((1, 2), 0.01), csi, scenario)  # rates 1.8 and 0.4 nat/s/Hz
    tensor([[0.0100, 0.0000]])
    """
    if csi.shape[-1] != scenario.workers:
        # These fields may be listed for the scenario's workers and do not affect the selection.
        unread = {"weights": "ones", "bits_per_weight": 1.0, "compute_energy_j_per_bit": 0.0}
        scenario = scenario.replace(workers=csi.shape[-1], **unread)
    sinr = link.sinr(csi, power)
    meets = torch.ones_like(power, dtype=torch.bool)
    for constraint in Problem.from_scenario(scenario).constraints:
        least = constraint.with_margin(-_THRESHOLD_TOL).threshold.to(power)
        met = constraint.value(sinr, power) >= least
        meets &= met | ~constraint.active.to(power.device)
    return torch.where(meets, power, 0.0)


class FullPower(PowerPolicy):
    """Full power: p_i = Pmax for every worker.

    Args:
        scenario: the cell and its radio.

    >>> FullPower(Scenario(workers=2)).allocate(torch.ones(1, 2, 2))
    tensor([[0.0100, 0.0100]])
    """

    name = "max"
    summary = "everyone at full power"
    by_default = True
    colour, marker = "#78614D", "s"

    def powers(self, csi: Tensor) -> Tensor:
        """Pmax of all workers, (N, L, L) to (N, L), W."""
        return self.scenario.max_power.to(csi).expand(csi.shape[:-1])


class Ideal(FullPower):
    """Error-free uplink: every upload arrives; time and energy are undefined.

    Args:
        scenario: the cell and its radio.

    """

    name = "ideal"
    summary = "every upload arrives, at no cost"
    colour, marker = "#566682", "h"
    is_lossless = True


class RandomPower(SelectingPolicy):
    """Random powers, p_i uniform in [0, Pmax), followed by one-shot selection (:func:`select`).

    Every call draws new powers; policies with equal seeds draw equal sequences.

    Args:
        scenario: the cell and its radio.
        seed: seed of the powers.

    >>> policy = RandomPower(Scenario(workers=2), seed=1)
    >>> bool((policy.allocate(torch.ones(1, 2, 2)) <= 0.01).all())
    True
    """

    name = "rand"
    summary = "random powers; workers below a threshold stay silent"
    by_default = True
    colour, marker = "#9A8A89", "v"

    def __init__(self, scenario: Scenario, *, seed: int = 0) -> None:
        super().__init__(scenario)
        self.seed = seed
        self._generator = torch_generator(seed, "policy")

    @classmethod
    def make(cls, scenario: Scenario, context: TuningContext) -> Self:
        """Make the policy with the seed of ``context``."""
        return cls(scenario, seed=context.seed)

    def tensors(self) -> dict[str, Tensor]:
        """Seed of the powers."""
        return {"seed": torch.tensor(self.seed)}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """Restore a policy that starts its sequence of powers anew."""
        return cls(scenario, seed=int(tensors["seed"]))

    def candidate_powers(self, csi: Tensor) -> Tensor:
        """Draw powers uniformly from [0, Pmax).

        Args:
            csi: observed CSI, (N, L, L), in 1/W; only its shape is used.

        Returns:
            Powers, (N, L), W.
        """
        unit = torch.rand(csi.shape[:-1], generator=self._generator).to(csi)
        return unit * self.scenario.max_power.to(csi)


class UnselectedRandomPower(RandomPower):
    """``rand`` without selection, as in the paper's code."""

    name = "rand:unselected"
    summary = "random powers, all workers transmit"
    selects = False


class Orthogonal(SelectingPolicy):
    """p_i = min(Pmax, P_E,i), followed by one-shot selection (:func:`select`).

    P_E,i is the largest power with energy efficiency EE_i ≥ e0 in the absence of interference.

    Args:
        scenario: the cell and its radio.

    >>> policy = Orthogonal(Scenario(workers=2, ee_min=0.0))  # without a limit, P_E is infinite
    >>> policy.allocate(torch.tensor([[[500.0, 1.0], [1.0, 500.0]]]))
    tensor([[0.0100, 0.0100]])
    """

    name = "orth"
    summary = "best powers without interference; workers below a threshold stay silent"
    by_default = True
    colour, marker = "#FF5B00", "^"

    def candidate_powers(self, csi: Tensor) -> Tensor:
        """Allocate min(Pmax, P_E,i) to all workers.

        Args:
            csi: observed CSI, (N, L, L), in 1/W.

        Returns:
            Powers, (N, L), W.
        """
        direct = csi.diagonal(dim1=-2, dim2=-1)
        limit = largest_efficient_power(
            direct,
            torch.as_tensor(self.scenario.ee_min, dtype=torch.float64),
            self.scenario.static_power,
            self.scenario.amplifier_inefficiency,
        )
        return torch.minimum(limit, self.scenario.max_power.to(limit))


class UnselectedOrthogonal(Orthogonal):
    """``orth`` without selection, as in the paper's code."""

    name = "orth:unselected"
    summary = "best powers without interference, all workers transmit"
    selects = False


def largest_efficient_power(
    direct_gain: Tensor, ee_min: Tensor, static_power_w: Tensor, amplifier_inefficiency: float
) -> Tensor:
    """Largest power at which the energy efficiency without interference reaches a threshold.

    Solves ln(1 + α p) ≥ e0 (μ p + P_c). With u = 1 + α p and c = e0 μ / α, equality is
    −c u e^(−c u) = −c e^(e0 P_c − c), and the larger root is given by the lower branch of the
    Lambert W function, u = −W₋₁(−c e^(e0 P_c − c)) / c.

    Args:
        direct_gain: channel gains α = H_ii in units of 1/W, (..., L).
        ee_min: threshold e0 in nat/s/Hz/W, () or (L,).
        static_power_w: static power P_c in W, () or (L,).
        amplifier_inefficiency: μ, at least 1.

    Returns:
        Powers in W, (..., L); 0 if no power reaches the threshold, ∞ if e0 = 0.

    >>> import math
    >>> gain, static = torch.tensor([100.0]), torch.tensor(0.01)
    >>> ee_at_30_mw = torch.tensor(math.log(4.0) / 0.04)  # ln(1 + 100 · 0.03) / (0.03 + 0.01)
    >>> largest_efficient_power(gain, ee_at_30_mw, static, 1.0)
    tensor([0.0300])
    """
    # Imported here: the import takes 0.2 s, and no other policy needs it.
    from scipy.special import lambertw

    alpha = direct_gain.detach().cpu().double().numpy()
    e0 = ee_min.numpy()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        c = e0 * amplifier_inefficiency / alpha
        argument = -c * np.exp(e0 * static_power_w.numpy() - c)
        # For c ≥ 1 the efficiency decreases in p; for arguments below −1/e no root exists.
        solvable = (c < 1) & (argument >= -np.exp(-1.0))
        root = -lambertw(np.where(solvable, argument, -0.1), k=-1).real / c
        power = np.where(solvable, (root - 1) / alpha, 0.0)
    power = np.where(e0 == 0, np.inf, power)
    return torch.from_numpy(np.clip(power, 0.0, None)).to(direct_gain)
