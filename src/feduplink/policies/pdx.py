"""``pdx``: an unrolled network that maximises the Lagrangian at the multipliers of a scenario."""

from __future__ import annotations

from torch import Tensor, nn

from feduplink.channels import denoised_csi, draw_training_csi
from feduplink.lagrangian import ChannelBatch, DualPoint
from feduplink.optimum.calibration import CORRECTION_CHANNELS, MARGIN, calibrate_multipliers
from feduplink.policies.base import TuningContext, silence
from feduplink.policies.dual import LagrangianPolicy, kept_point, shipped_point, shipped_tensors
from feduplink.policies.pdx_network import UnrolledNetwork
from feduplink.problem import Problem
from feduplink.scenario import Scenario

#: Number of channels drawn for the calibration of the multipliers.
CHANNELS = 40_000


class UnrolledPolicy(LagrangianPolicy, nn.Module):
    """Unrolled network that maximises the Lagrangian at the multipliers of a scenario.

    Called as a module with CSI, it returns powers that are differentiable in the weights.

    Args:
        scenario: the cell and its radio.
        network: network that maximises the Lagrangian.
        point: multipliers and thresholds.
        problem: optimisation problem; None uses the problem of the scenario.

    """

    name = "pdx"
    summary = "an unrolled network for all scenarios, with the multipliers of this one"
    algorithm = "lagrangian"
    colour, marker = "#D30100", "*"

    def __init__(
        self,
        scenario: Scenario,
        network: UnrolledNetwork,
        point: DualPoint,
        problem: Problem | None = None,
    ) -> None:
        super().__init__(scenario, point, problem)
        self.network = network

    @classmethod
    def make(cls, scenario: Scenario, context: TuningContext) -> UnrolledPolicy:
        """Make the policy with the shipped network; see :func:`shipped_pdx`.

        The multipliers are calibrated on the training split of recorded channels. Without
        recorded channels they do not depend on the seed of ``context``.
        """
        channels = context.channels
        csi = channels.training if channels is not None and channels.recorded else None
        return shipped_pdx(scenario, csi, problem=context.problem)

    @classmethod
    def calibrated(
        cls,
        network: UnrolledNetwork,
        scenario: Scenario,
        csi: Tensor | None = None,
        problem: Problem | None = None,
        *,
        margin: float = MARGIN,
        seed: int = 0,
    ) -> UnrolledPolicy:
        """Calibrate the multipliers of a network with :func:`calibrate_multipliers`.

        Args:
            network: network that maximises the Lagrangian.
            scenario: the cell and its radio.
            csi: channels H in units of 1/W for the calibration, (N, L, L); None draws channels
                from the scenario, and further ones in every correction round.
            problem: optimisation problem; None uses the problem of the scenario.
            margin: margin of the thresholds, in standard errors.
            seed: seed of drawn channels and of the CSI noise.

        Returns:
            The policy at the calibrated multipliers.
        """
        is_drawn = csi is None
        known = draw_training_csi(scenario, CHANNELS, seed=seed) if csi is None else csi

        def draw(number: int) -> Tensor:
            return draw_training_csi(scenario, CORRECTION_CHANNELS, seed=seed, block=1 + number)

        def find(problem: Problem) -> DualPoint:
            return calibrate_multipliers(
                scenario,
                known,
                network,
                problem=problem,
                draw_csi=draw if is_drawn else None,
                margin=margin,
                seed=seed,
            )

        inputs = {"csi": known, **network.state_dict()}
        settings = {"margin": margin, "seed": seed, "looks": is_drawn}
        point = kept_point(cls.name, scenario, inputs, settings, find, problem)
        return cls(scenario, network, point, problem)

    def powers(self, csi: Tensor) -> Tensor:
        """Powers of the network, (N, L, L) to (N, L), W; differentiable in its weights.

        For noisy CSI, the input of the network is the posterior mean of the gains, because its
        features are logarithms, which amplify the noise of small gains.
        """
        seen = denoised_csi(csi, self.scenario.csi_noise)
        batch = ChannelBatch.from_scenario(self.scenario, seen)
        return self.network.powers(batch, self.prices(csi)).to(csi.dtype)

    def forward(self, csi: Tensor) -> Tensor:
        """Differentiable powers (N, L) in W, zero below ``silence_w``, for CSI (N, L, L)."""
        return silence(self.powers(csi), self.silence_w)

    def tensors(self) -> dict[str, Tensor]:
        """Weights, multipliers and thresholds."""
        return {**self.state_dict(), **super().tensors()}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> UnrolledPolicy:
        """Restore a policy from weights, multipliers and thresholds."""
        policy = cls(scenario, UnrolledNetwork(), DualPoint.from_tensors(tensors))
        weights = {name: t for name, t in tensors.items() if name.startswith("network.")}
        policy.load_state_dict(weights)
        return policy


def shipped_pdx(
    scenario: Scenario | None = None,
    csi: Tensor | None = None,
    *,
    problem: Problem | None = None,
    margin: float = MARGIN,
) -> UnrolledPolicy:
    """Make ``pdx`` with the shipped network.

    By default, the multipliers are calibrated on channels drawn from the scenario with a fixed
    seed, so that they depend on the scenario only. Multipliers of the shipped scenarios are
    included in the package; others are cached. Pass ``csi`` to calibrate the multipliers on your
    own channels.

    Args:
        scenario: the cell and its radio; None is the default scenario.
        csi: channels H in units of 1/W for the calibration, (N, L, L); None draws them.
        problem: optimisation problem; None uses the problem of the scenario.
        margin: margin of the thresholds, in standard errors.

    Returns:
        The policy for the scenario.

    >>> shipped_pdx().scenario == Scenario()
    True
    """
    scenario, shipped = scenario or Scenario(), _shipped()
    if csi is None and problem is None and margin == MARGIN:
        usual = scenario == shipped.scenario
        point = shipped.point if usual else shipped_point(UnrolledPolicy.name, scenario)
        if point is not None:
            return UnrolledPolicy(scenario, shipped.network, point)
    return UnrolledPolicy.calibrated(shipped.network, scenario, csi, problem, margin=margin)


def shipped_network() -> UnrolledNetwork:
    """Load the shipped network, trained on random cells, radios and prices."""
    return _shipped().network


def _shipped() -> UnrolledPolicy:
    """The shipped policy for the default scenario."""
    tensors = shipped_tensors("pdx.safetensors", "policy").tensors
    return UnrolledPolicy.from_tensors(Scenario(), tensors)
