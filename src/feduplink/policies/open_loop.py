"""``openloop``: fractional open-loop power control of 3GPP, with P0 and a tuned for the problem."""

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

#: Path-loss exponents a of the tuning grid; finer than the steps of 0.1 in 3GPP.
_FRACTION_GRID = torch.linspace(0.0, 1.2, 25).tolist()
#: Number of values of P0 per exponent in the tuning grid.
_NUM_TARGETS = 33
#: Accepted range of a. With a < 0, which tuning may choose, stronger links get more power.
_MIN_FRACTION, _MAX_FRACTION = -1.0, 2.0


class OpenLoop(PowerPolicy):
    """Fractional open-loop power control, p_i = min(Pmax, P0 · (1/α_i)^a).

    The path loss 1/α_i of worker i is relative to the noise power, so that P0 is the target SNR
    for a = 1. All workers always transmit, and interference is ignored.

    Args:
        scenario: the cell and its radio.
        target: P0, finite and above 0, in units of W^(1−a).
        fraction: path-loss exponent a, from −1 to 2.

    Raises:
        InputError: if ``target`` or ``fraction`` is outside its range.

    >>> policy = OpenLoop(Scenario(workers=2), target=1.0, fraction=1.0)  # full inversion
    >>> policy.allocate(torch.tensor([[[500.0, 1.0], [1.0, 50.0]]]))
    tensor([[0.0020, 0.0100]])
    """

    name = "openloop"
    summary = "fractional power control of 3GPP on the measured gain, tuned"
    by_default = True
    colour, marker = "#149DDB", "D"

    def __init__(self, scenario: Scenario, *, target: float, fraction: float) -> None:
        super().__init__(scenario)
        if not 0 < target < math.inf:
            raise InputError(f"target: {target} is not accepted; accepted: a finite P0 above 0.")
        if not _MIN_FRACTION <= fraction <= _MAX_FRACTION:
            raise InputError(
                f"fraction: {fraction} is not accepted; accepted: from {_MIN_FRACTION:g} to "
                f"{_MAX_FRACTION:g}."
            )
        self.target = target
        self.fraction = fraction

    def __repr__(self) -> str:
        """Class, P0 and exponent a."""
        return f"OpenLoop(P0 {self.target:.4g} W, exponent {self.fraction:.3g})"

    def powers(self, csi: Tensor) -> Tensor:
        """Powers from the direct gains α_i = H_ii, (N, L, L) to (N, L), W."""
        path_loss = 1 / csi.diagonal(dim1=-2, dim2=-1)
        power = self.target * path_loss**self.fraction
        return torch.minimum(power, self.scenario.max_power.to(power))

    def tensors(self) -> dict[str, Tensor]:
        """P0 and a, (2,)."""
        return {"setting": torch.tensor([self.target, self.fraction], dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> OpenLoop:
        """Restore a policy from P0 and a."""
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
        """Tune P0 and a by grid search on channels observed with the scenario's CSI noise.

        Among the settings that satisfy every constraint by at least one standard error, the search
        selects the one with the highest objective. If there are none, it selects the one with the
        smallest violation. A finer grid around the best setting is searched afterwards.

        Args:
            scenario: the cell and its radio.
            csi: true channels H in units of 1/W, (N, L, L).
            problem: optimisation problem; None uses the problem of the scenario.
            seed: seed of the CSI noise.

        Returns:
            The tuned policy.

        >>> from feduplink.channels import draw_csi
        >>> scenario = Scenario(workers=2)
        >>> csi = draw_csi(scenario, 20, torch.Generator().manual_seed(0))
        >>> policy = OpenLoop.tuned(scenario, csi)
        >>> -1 <= policy.fraction <= 2
        True
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

        for fraction in track_each("tuning of openloop", _FRACTION_GRID, "fractions"):
            # P0 at which a link reaches full power, from a tenth of the smallest to the largest.
            full = scenario.max_power * direct.double() ** fraction
            for target in torch.logspace(
                float(full.min().log10()) - 1, float(full.max().log10()), _NUM_TARGETS
            ).tolist():
                attempt(target, fraction)
        assert best is not None
        coarse = best[1]
        near = torch.linspace(coarse.fraction - 0.05, coarse.fraction + 0.05, 11).tolist()
        for fraction in track_each("fine tuning of openloop", near, "fractions"):
            for factor in torch.logspace(-0.4, 0.4, 41).tolist():
                # Keep the power of the median link when the exponent changes.
                pivot = float(direct.double().median()) ** (fraction - coarse.fraction)
                attempt(coarse.target * pivot * factor, fraction)
        return best[1]


def _rank(problem: Problem, state: link.LinkState) -> tuple[bool, float]:
    """Sort key of settings: feasible ones by objective above infeasible ones by −violation."""
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
