"""Training of the network of ``pdx``: maximise the Lagrangian at random channels and prices.

No constraint appears here. The network learns the inner problem of the dual, the maximum over p of
the Lagrangian, for any channel, weights, Pmax and multipliers; the multipliers for the constraints
of a scenario are found afterwards, with the network in the loop.

A step consists of about a thousand small kernels. Starting them takes the host of a GPU four times
as long as computing them, so that a CUDA graph starts them all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from feduplink.lagrangian import ChannelBatch, Prices
from feduplink.policies import UnrolledPolicy
from feduplink.policies.pdx_network import (
    ChannelFeatures,
    UnrolledNetwork,
    price_unit,
)
from feduplink.scenario import Scenario
from feduplink.settings import NetworkSettings
from feduplink.training.curriculum import Curriculum, OneScenario, TunedProblems
from feduplink.training.one_cycle import OneCycleLearning
from feduplink.training.trainer import TrainingRequest

#: How much each iteration's output counts in the loss, the start first.
_DEPTH_WEIGHTS = (0.05, 0.1, 0.2, 0.35, 0.6, 1.0)
#: How much the mean of both starts counts beside the better one: none is to be given up.
_EITHER = 0.2
#: Lagrangians count as they are, in units of the workers' weights, but those at higher prices than
#: this no more than at such prices.
_HIGHEST_UNIT = 8.0


class NetworkLoss(nn.Module):
    """Minus the Lagrangian that the iterations reach from the better start, later ones count more.

    A function of tensors alone: a number would become part of a recorded graph.
    """

    def __init__(self, network: UnrolledNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        direct: Tensor,
        cross: Tensor,
        pmax_w: Tensor,
        static_power_w: Tensor,
        radio: Tensor,
        prices: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, the Lagrangian of the last iteration, scalars, and its powers (N, L) in W.

        The first four as in a :class:`ChannelBatch`; ``radio`` has the waterfall and the
        amplifier's inefficiency, (2,), ``prices`` those of success, rate, efficiency and of being
        on the air, (4, N, L).
        """
        waterfall, inefficiency = cast("tuple[float, float]", radio.unbind())
        batch = ChannelBatch(direct, cross, pmax_w, waterfall, static_power_w, inefficiency)
        success, rate, efficiency, activation_cost = prices.unbind()
        priced = Prices(success, rate, efficiency, activation_cost)
        outputs = self.network(batch, priced)
        workers = direct.shape[-1]
        unit = (workers * price_unit(priced, static_power_w)).clamp_max(_HIGHEST_UNIT)
        channel = ChannelFeatures(batch, priced)
        reached = []
        for output in outputs:
            ends = unit * channel.lagrangian_at_gates(output)
            reached.append(((1 - _EITHER) * ends.amax(0) + _EITHER * ends.mean(0)).mean())
        weighted = [weight * value for weight, value in zip(_DEPTH_WEIGHTS, reached, strict=True)]
        with torch.no_grad():
            power = pmax_w * channel.better_end(outputs[-1])
        return -torch.stack(weighted).sum(), reached[-1].detach(), power


class RecordedLosses:
    """The loss of a network; on a GPU each number of workers is recorded when it first comes."""

    def __init__(self, network: UnrolledNetwork) -> None:
        self._loss = NetworkLoss(network)
        self._pool: Any = None
        self._recorded: dict[torch.Size, Callable[..., Any]] = {}

    def __call__(self, batch: ChannelBatch, prices: Prices) -> tuple[Tensor, Tensor, Tensor]:
        """As :class:`NetworkLoss`, for a batch in float32 and prices (N, L)."""
        tensors = (
            batch.direct,
            batch.cross,
            batch.pmax_w,
            batch.static_power_w,
            batch.direct.new_tensor([batch.waterfall, batch.amplifier_inefficiency]),
            torch.stack((prices.success, prices.rate, prices.efficiency, prices.activation_cost)),
        )
        if not batch.direct.is_cuda:
            loss, reached, power = self._loss(*tensors)
            return loss, reached, power
        size = batch.direct.shape
        if size not in self._recorded:
            # Recording replaces the module's forward, so every size has a module of its own
            # around the one network. All share their memory: one runs at a time.
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._recorded[size] = torch.cuda.make_graphed_callables(
                NetworkLoss(self._loss.network), tensors, pool=self._pool
            )
        loss, reached, power = self._recorded[size](*tensors)
        # What was recorded passes for differentiable as a whole.
        return loss, reached.detach(), power.detach()


class LagrangianLearning(OneCycleLearning):
    """Training of the network of ``pdx`` on the channels and prices of a curriculum.

    Args:
        network: network to be trained, in place.
        scenario: the scenario that the trained policy is for.
        settings: hyperparameters.
        curriculum: channels and prices to train on; None is that of the settings.
        recorded: channels to train on and to find the multipliers on, (N, L, L); None draws them
            from the scenario.
        seed: seed of the curriculum.
    """

    title = "pdx"
    state_types = TunedProblems.state_types

    def __init__(
        self,
        network: UnrolledNetwork,
        scenario: Scenario,
        settings: NetworkSettings,
        *,
        curriculum: Curriculum | None = None,
        recorded: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(network, settings, seed=seed, clip_norm=1.0, fused=True)
        self.scenario, self.recorded = scenario, recorded
        if curriculum is None and settings.everything:
            curriculum = TunedProblems(seed=seed)
        self.curriculum = curriculum or OneScenario(scenario, recorded)
        self._network = network
        self._loss = RecordedLosses(network)
        self._reached = torch.tensor(torch.nan)

    @classmethod
    def make(cls, request: TrainingRequest) -> Self:
        """Make the algorithm for a network with random weights.

        Options are the fields of :class:`NetworkSettings`.
        """
        request.check_options(NetworkSettings.model_fields)
        network = UnrolledNetwork.initialised(request.seed).to(request.device)
        settings = NetworkSettings(**request.options)
        recorded = request.channels.training if request.channels.recorded else None
        return cls(network, request.scenario, settings, recorded=recorded, seed=request.seed)

    def trained(self) -> UnrolledPolicy:
        """The network with multipliers found for the scenario, which takes seconds."""
        network = self._network.cpu()
        return UnrolledPolicy.calibrated(network, self.scenario, self.recorded, seed=self.seed)

    def draw(self) -> tuple[ChannelBatch, Prices]:
        """Draw channels with prices from the curriculum."""
        return self.curriculum.draw(self.settings.batch_size, self.generator)

    def loss(self, batch: tuple[ChannelBatch, Prices]) -> Tensor:
        """Minus the weighted Lagrangian; the curriculum learns of the powers."""
        loss, self._reached, power = self._loss(*batch)
        self.curriculum.respond(power)
        return loss

    def figures(self) -> dict[str, float]:
        """The Lagrangian that the last iteration reached."""
        return {"Lagrangian": float(self._reached)}

    def identity(self) -> dict[str, Any]:
        """Curriculum, settings and seed."""
        return {"curriculum": self.curriculum.identity(), **super().identity()}

    def state(self) -> dict[str, Any]:
        """Position in the learning rate's cycle, and the state of the curriculum."""
        return {**super().state(), "curriculum": self.curriculum.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue both."""
        super().restore(state)
        self.curriculum.restore(state["curriculum"])
