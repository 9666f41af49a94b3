"""``openloop``: the uplink power control of a 3GPP network, tuned for the problem."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from feduplink import link
from feduplink.channels import Channels, observe_csi
from feduplink.errors import InputError
from feduplink.policies.base import PowerPolicy, TuningContext
from feduplink.problem import Problem
from feduplink.progress import track_each
from feduplink.scenario import Scenario

#: Fractions a of the path loss that are tried; 3GPP allows steps of 0.1, we refine.
_FRACTIONS = torch.linspace(0.0, 1.2, 25).tolist()
_TARGETS = 33
#: Fractions that are accepted. Below 0 the strong links get more power; tuning may get there.
_LOWEST_FRACTION, _HIGHEST_FRACTION = -1.0, 2.0


class OpenLoop(PowerPolicy):
    """Fractional open-loop power control p_i = min(Pmax, P0 · pathloss_i^a).

    The path loss of worker i is what its device measures, 1/α_i relative to the noise: P0 is
    therefore the target SNR when a = 1. No worker is ever silent, and interference is not
    looked at.
    """

    name = "openloop"
    summary = "fractional power control of 3GPP on the measured gain, tuned"
    by_default = True
    colour, marker = "#149DDB", "D"

    def __init__(self, scenario: Scenario, *, target: float, fraction: float) -> None:
        super().__init__(scenario)
        if not 0 < target < math.inf:
            raise InputError(f"target: {target} is not accepted; accepted: a finite P0 above 0.")
        if not _LOWEST_FRACTION <= fraction <= _HIGHEST_FRACTION:
            raise InputError(
                f"fraction: {fraction} is not accepted; accepted: from {_LOWEST_FRACTION:g} to "
                f"{_HIGHEST_FRACTION:g}."
            )
        self.target = target
        self.fraction = fraction

    def __repr__(self) -> str:
        """Its setting."""
        return f"OpenLoop(P0 {self.target:.4g} W, exponent {self.fraction:.3g})"

    def powers(self, csi: Tensor) -> Tensor:
        """Powers from the direct gains alone, (N, L, L) to (N, L), W."""
        path_loss = 1 / csi.diagonal(dim1=-2, dim2=-1)
        power = self.target * path_loss**self.fraction
        return torch.minimum(power, self.scenario.max_power.to(power))

    def tensors(self) -> dict[str, Tensor]:
        """P0 and a."""
        return {"setting": torch.tensor([self.target, self.fraction], dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> OpenLoop:
        """A policy with this P0 and a."""
        target, fraction = tensors["setting"].tolist()
        return cls(scenario, target=target, fraction=fraction)

    @classmethod
    def make(cls, scenario: Scenario, context: TuningContext) -> OpenLoop:
        """Tune P0 and a on the training channels."""
        channels = context.channels or Channels.from_scenario(scenario, seed=context.seed)
        return cls.tuned(scenario, channels.training, context.problem, seed=context.seed)

    @classmethod
    def tuned(
        cls,
        scenario: Scenario,
        csi: Tensor,
        problem: Problem | None = None,
        *,
        seed: int = 0,
    ) -> OpenLoop:
        """The best P0 and a on channels (N, L, L), seen through the scenario's CSI noise.

        Best is the highest objective among the settings of a grid that meet every constraint by
        at least one standard error (so that unseen channels meet them too), or the least
        violation where none does; the grid is then refined once around the best.
        """
        problem = problem or Problem.from_scenario(scenario)
        seen = observe_csi(csi, scenario, seed=seed, noise="tuning-noise")
        direct = seen.diagonal(dim1=-2, dim2=-1)
        best: tuple[tuple[bool, float], OpenLoop] | None = None

        def attempt(target: float, fraction: float) -> None:
            nonlocal best
            candidate = cls(scenario, target=target, fraction=fraction)
            rank = _rank(problem, link.upload(csi, candidate.powers(seen), scenario))
            if best is None or rank > best[0]:
                best = (rank, candidate)

        for fraction in track_each("tuning of openloop", _FRACTIONS, "fractions"):
            # From "only the best link at full power" to "all at full power".
            full = scenario.max_power * direct.double() ** fraction
            for target in torch.logspace(
                float(full.min().log10()) - 1, float(full.max().log10()), _TARGETS
            ).tolist():
                attempt(target, fraction)
        assert best is not None
        coarse = best[1]
        near = torch.linspace(coarse.fraction - 0.05, coarse.fraction + 0.05, 11).tolist()
        for fraction in track_each("fine tuning of openloop", near, "fractions"):
            for factor in torch.logspace(-0.4, 0.4, 41).tolist():
                # Keep the power of the median link while the slope changes.
                pivot = float(direct.double().median()) ** (fraction - coarse.fraction)
                attempt(coarse.target * pivot * factor, fraction)
        return best[1]


def _rank(problem: Problem, state: link.LinkState) -> tuple[bool, float]:
    """Order of preference: met constraints first, then the objective, else less violation."""
    violation = 0.0
    for constraint in problem.constraints:
        values = constraint.of(state)
        cautious = values.mean(0)
        if len(values) > 1:
            cautious -= values.std(0) / len(values) ** 0.5
        violation = max(violation, float(constraint.shortfall(cautious).max()))
    if violation > 0:
        return (False, -violation)
    return (True, float(problem.utility_of(state)))
