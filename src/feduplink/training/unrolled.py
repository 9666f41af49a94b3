"""Training of the network of ``pdx``: maximise the Lagrangian at random channels and prices.

The network learns the inner problem of the dual, max_p of the Lagrangian, for random channels,
weights, Pmax and multipliers. The multipliers of a scenario are calibrated afterwards with the
trained network (:mod:`feduplink.optimum.calibration`).

A training step consists of about a thousand small kernels. On a GPU it is recorded as a CUDA graph
to avoid the overhead of launching them.
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

#: Weights of the outputs in the loss: of the initial point, and of every iteration.
_DEPTH_WEIGHTS = (0.05, 0.1, 0.2, 0.35, 0.6, 1.0)
#: Weight of the mean over both initial points against the better one, so that both are trained.
_MEAN_WEIGHT = 0.2
#: Upper limit of the unit of prices, which limits the weight of channels with high prices.
_MAX_PRICE_UNIT = 8.0


class NetworkLoss(nn.Module):
    """Loss of the unrolled network: the negative weighted Lagrangian after every iteration.

    All arguments are tensors, because a CUDA graph records other arguments as constants.

    Args:
        network: network to train.
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
        """Compute the loss of a batch.

        Args:
            direct: gains α, (N, L).
            cross: gains β with a zero diagonal, (N, L, L).
            pmax_w: Pmax, (L,), W.
            static_power_w: static power, (L,), W.
            radio: waterfall threshold and amplifier inefficiency, (2,).
            prices: prices of packet success, rate and efficiency, and activation cost, (4, N, L).

        Returns:
            Loss and mean Lagrangian of the last iteration, scalars, and its powers, (N, L), W.
        """
        waterfall, inefficiency = cast("tuple[float, float]", radio.unbind())
        batch = ChannelBatch(direct, cross, pmax_w, waterfall, static_power_w, inefficiency)
        success, rate, efficiency, activation_cost = prices.unbind()
        priced = Prices(success, rate, efficiency, activation_cost)
        outputs = self.network(batch, priced)
        workers = direct.shape[-1]
        unit = (workers * price_unit(priced, static_power_w)).clamp_max(_MAX_PRICE_UNIT)
        channel = ChannelFeatures(batch, priced)
        values = []
        for output in outputs:
            ends = unit * channel.lagrangian_at_gates(output)
            values.append(((1 - _MEAN_WEIGHT) * ends.amax(0) + _MEAN_WEIGHT * ends.mean(0)).mean())
        weighted = [weight * value for weight, value in zip(_DEPTH_WEIGHTS, values, strict=True)]
        with torch.no_grad():
            power = pmax_w * channel.better_end(outputs[-1])
        return -torch.stack(weighted).sum(), values[-1].detach(), power


class RecordedLosses:
    """Loss of a network, recorded on a GPU as one CUDA graph per number of workers.

    Args:
        network: network to train.
    """

    def __init__(self, network: UnrolledNetwork) -> None:
        self._loss = NetworkLoss(network)
        self._pool: Any = None
        self._recorded: dict[torch.Size, Callable[..., Any]] = {}

    def __call__(self, batch: ChannelBatch, prices: Prices) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the loss of a batch as :meth:`NetworkLoss.forward` does.

        Args:
            batch: N channels of L workers, float32.
            prices: prices, (N, L), float32.
        """
        tensors = (
            batch.direct,
            batch.cross,
            batch.pmax_w,
            batch.static_power_w,
            batch.direct.new_tensor([batch.waterfall, batch.amplifier_inefficiency]),
            torch.stack((prices.success, prices.rate, prices.efficiency, prices.activation_cost)),
        )
        if not batch.direct.is_cuda:
            loss, lagrangian, power = self._loss(*tensors)
            return loss, lagrangian, power
        size = batch.direct.shape
        if size not in self._recorded:
            # Recording replaces the module's forward, so every size needs its own module around
            # the shared network. The graphs share memory because only one runs at a time.
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._recorded[size] = torch.cuda.make_graphed_callables(
                NetworkLoss(self._loss.network), tensors, pool=self._pool
            )
        loss, lagrangian, power = self._recorded[size](*tensors)
        # All outputs of a graphed callable require gradients.
        return loss, lagrangian.detach(), power.detach()


class LagrangianLearning(OneCycleLearning):
    """Training of the network of ``pdx`` on the channels and prices of a curriculum.

    Args:
        network: network to train, in place.
        scenario: scenario of the trained policy.
        settings: hyperparameters.
        curriculum: channels and prices to train on; None uses that of the settings.
        recorded: channels H in units of 1/W for training and calibration, (N, L, L); None draws
            channels from the scenario.
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
        self._lagrangian = torch.tensor(torch.nan)

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
        """Policy with the network and multipliers calibrated for the scenario, on the CPU."""
        network = self._network.cpu()
        return UnrolledPolicy.calibrated(network, self.scenario, self.recorded, seed=self.seed)

    def draw(self) -> tuple[ChannelBatch, Prices]:
        """Draw channels with prices from the curriculum."""
        return self.curriculum.draw(self.settings.batch_size, self.generator)

    def loss(self, batch: tuple[ChannelBatch, Prices]) -> Tensor:
        """Compute the loss of a batch and pass its powers to the curriculum."""
        loss, self._lagrangian, power = self._loss(*batch)
        self.curriculum.respond(power)
        return loss

    def figures(self) -> dict[str, float]:
        """Mean Lagrangian of the last iteration."""
        return {"Lagrangian": float(self._lagrangian)}

    def identity(self) -> dict[str, Any]:
        """Curriculum, settings and seed."""
        return {"curriculum": self.curriculum.identity(), **super().identity()}

    def state(self) -> dict[str, Any]:
        """Position in the learning-rate cycle, and state of the curriculum."""
        return {**super().state(), "curriculum": self.curriculum.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the position in the learning-rate cycle and the state of the curriculum."""
        super().restore(state)
        self.curriculum.restore(state["curriculum"])
