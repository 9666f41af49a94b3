"""Training of the phase network: minimise the cost of the best mixture of its phases.

Training is unsupervised. The best mixture of the proposed phases solves a linear program, and the
derivative of its cost in every phase follows from the dual variables of the program. Every step
draws a new cell, new channels and new prices of energy.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from feduplink.channels import draw_csi
from feduplink.lagrangian import ChannelBatch
from feduplink.policies import LearnedSchedule
from feduplink.scenario import Scenario
from feduplink.scheduling.learned import PhaseProposal, PricedRounds, mixing_loss
from feduplink.scheduling.phase_network import PhaseNetwork
from feduplink.settings import PhaseSettings
from feduplink.training.one_cycle import OneCycleLearning
from feduplink.training.trainer import TrainingRequest

#: Time constant of the exponential moving average of the weights, in steps.
_AVERAGED_STEPS = 200
_MAX_GRADIENT_NORM = 0.3
#: Probability of κ = 0, and range of the log-uniform distribution of κ otherwise, s/J.
_ZERO_KAPPA_PROBABILITY = 0.25
_KAPPA_RANGE = (0.2, 200.0)


@dataclass(frozen=True)
class PhaseCurriculum:
    """Random cells and prices of energy for training; each batch has channels of one cell.

    Repeated values are drawn more often.

    Attributes:
        workers: numbers of workers L.
        pmax_dbw: values of Pmax, dBW.
        interference: interference factors.
        channel_models: names of channel models.
    """

    workers: tuple[int, ...] = (8, 8, 8, 6, 10, 12, 16, 16, 24, 32)
    pmax_dbw: tuple[float, ...] = (-20.0, -20.0, -20.0, -25.0, -15.0)
    interference: tuple[float, ...] = (1.0, 1.0, 1.0, 2.0, 4.0)
    channel_models: tuple[str, ...] = ("wbs", "wbs", "wbs", "hata-urban", "hata-suburban-shadowed")

    def draw(self, count: int, generator: torch.Generator) -> PricedRounds:
        """Draw rounds of one cell, with one κ per round.

        Args:
            count: number of rounds for L = 8; the number drawn is proportional to (8/L)³.
            generator: source of all random numbers.

        Returns:
            Channels, demands and prices of energy of the rounds.
        """
        fields = {
            "workers": self.workers,
            "pmax_dbw": self.pmax_dbw,
            "interference": self.interference,
            "channel_model": self.channel_models,
        }
        device = generator.device
        uniform = torch.rand(len(fields), generator=generator, device=device).tolist()
        chosen = {
            name: values[int(part * len(values))]
            for (name, values), part in zip(fields.items(), uniform, strict=True)
        }
        scenario = Scenario(**chosen)
        # Constant computing time per step, which grows as phases × workers × interferers.
        count = max(1, int(count * (8 / scenario.workers) ** 3))
        batch = ChannelBatch.from_scenario(scenario, draw_csi(scenario, count, generator))
        random = torch.rand(2, count, generator=generator, device=device)
        least, most = (math.log(kappa) for kappa in _KAPPA_RANGE)
        kappa = (least + (most - least) * random[0]).exp()
        # Durations are proportional to the demand, so that its value does not matter.
        demand = torch.full_like(batch.direct, 5.0)
        return PricedRounds.from_batch(
            batch, demand, torch.where(random[1] < _ZERO_KAPPA_PROBABILITY, 0.0, kappa)
        )


class ScheduleLearning(OneCycleLearning):
    """Training of the phase network of ``learned-schedule`` on random cells.

    The trained weights are an exponential moving average over about the last 200 steps.

    Args:
        network: network to train, in place.
        scenario: scenario of the trained policy; the training does not depend on it.
        settings: hyperparameters.
        curriculum: cells to train on; None uses the default ones.
        seed: seed of the curriculum.
    """

    title = "learned schedules"

    def __init__(
        self,
        network: PhaseNetwork,
        scenario: Scenario,
        settings: PhaseSettings,
        *,
        curriculum: PhaseCurriculum | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(network, settings, seed=seed, clip_norm=_MAX_GRADIENT_NORM)
        self.scenario = scenario
        self.curriculum = curriculum or PhaseCurriculum()
        self._network = network
        self._averaged = copy.deepcopy(network).requires_grad_(False)
        self._costs = torch.tensor(torch.nan), torch.tensor(torch.nan)

    @classmethod
    def make(cls, request: TrainingRequest) -> Self:
        """Make the algorithm for a network with random weights.

        Options are the fields of :class:`PhaseSettings`.
        """
        request.check_options(PhaseSettings.model_fields)
        network = PhaseNetwork.initialised(request.seed).to(request.device)
        settings = PhaseSettings(**request.options)
        return cls(network, request.scenario, settings, seed=request.seed)

    def trained(self) -> LearnedSchedule:
        """Policy with the network, on the CPU."""
        network = PhaseNetwork.from_weights(self._network.cpu().state_dict())
        return LearnedSchedule(self.scenario, network=network)

    def draw(self) -> PricedRounds:
        """Draw rounds of one cell."""
        return self.curriculum.draw(self.settings.batch_size, self.generator)

    def loss(self, batch: PricedRounds) -> Tensor:
        """Compute a scalar with the gradient of the mean ln(cost) of the best mixtures."""
        proposal = PhaseProposal(batch)
        one_at_a_time = proposal.master.value
        loss = mixing_loss(proposal, proposal.propose(self._network.weights))
        self._costs = proposal.master.value, one_at_a_time
        return loss

    def step(self, batch: PricedRounds) -> None:
        """Take one step on a batch and update the average of the weights."""
        super().step(batch)
        share = max(1 / _AVERAGED_STEPS, 1 / self.steps)
        with torch.no_grad():
            pairs = zip(self._averaged.parameters(), self._network.parameters(), strict=True)
            for mean, weight in pairs:
                mean.lerp_(weight, share)

    def figures(self) -> dict[str, float]:
        """Mean cost of the mixtures relative to TDMA."""
        mixed, one_at_a_time = self._costs
        return {"relative cost": float((mixed / one_at_a_time).mean())}

    def weights(self) -> dict[str, Tensor]:
        """Averaged weights."""
        return self._averaged.state_dict()

    def identity(self) -> dict[str, Any]:
        """Curriculum, settings and seed."""
        cells = {name: list(values) for name, values in vars(self.curriculum).items()}
        return {"curriculum": cells, **super().identity()}

    def state(self) -> dict[str, Any]:
        """Position in the learning-rate cycle, and averaged weights."""
        return {**super().state(), "averaged": self._averaged.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the position in the learning-rate cycle and the averaged weights."""
        super().restore(state)
        self._averaged.load_state_dict(state["averaged"])
