"""``pdx``: a network that maximises the Lagrangian, at the multipliers of a scenario."""

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

#: Channels drawn that the multipliers are found on.
CHANNELS = 40_000


class UnrolledPolicy(LagrangianPolicy, nn.Module):
    """The network with the multipliers of a scenario.

    A module like the other learned policies: called with CSI it gives powers that can be
    differentiated in the network's weights.
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
        """The shipped network; its multipliers are calibrated on recorded channels.

        Without recorded channels a scenario has one ``pdx``, whatever the seed.
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
        """With multipliers found by :func:`calibrate_multipliers`.

        Args:
            network: maximises the Lagrangian.
            scenario: the cell and its radio.
            csi: channels (N, L, L) that they are found on; None draws these for the scenario, and
                more of them in every correction round.
            problem: to be solved; None is the problem that the scenario describes.
            margin: by how many standard errors the policy aims above the thresholds.
            seed: of the channels drawn, and of the noise on them.
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
        """What the network says, (N, L, L) to (N, L), W.

        Where the scenario says that CSI is noisy, the network sees its expectation: logarithms
        of gains that are lost in the noise would lead it astray.
        """
        seen = denoised_csi(csi, self.scenario.csi_noise)
        batch = ChannelBatch.from_scenario(self.scenario, seen)
        return self.network.powers(batch, self.prices(csi)).to(csi.dtype)

    def forward(self, csi: Tensor) -> Tensor:
        """As :meth:`powers`, with silent workers at exactly zero."""
        return silence(self.powers(csi), self.silence_w)

    def tensors(self) -> dict[str, Tensor]:
        """The network's weights, the multipliers and the thresholds."""
        return {**self.state_dict(), **super().tensors()}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> UnrolledPolicy:
        """A policy with these weights, multipliers and thresholds."""
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
    """The shipped network with multipliers for ``scenario``, by default the default one.

    They are found on channels drawn for the scenario, always the same: a scenario has one ``pdx``,
    whatever the seed of a run. Those of the shipped scenarios ship, others are kept once they are
    found. Only who gives channels ``csi`` (N, L, L) gets multipliers found on these.
    """
    scenario, shipped = scenario or Scenario(), _shipped()
    if csi is None and problem is None and margin == MARGIN:
        usual = scenario == shipped.scenario
        point = shipped.point if usual else shipped_point(UnrolledPolicy.name, scenario)
        if point is not None:
            return UnrolledPolicy(scenario, shipped.network, point)
    return UnrolledPolicy.calibrated(shipped.network, scenario, csi, problem, margin=margin)


def shipped_network() -> UnrolledNetwork:
    """The network that ships, trained for cells of many sizes, powers and prices."""
    return _shipped().network


def _shipped() -> UnrolledPolicy:
    """The policy of the default scenario."""
    tensors = shipped_tensors("pdx.safetensors", "policy").tensors
    return UnrolledPolicy.from_tensors(Scenario(), tensors)
