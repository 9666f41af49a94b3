"""A server optimiser of your own: FedAvgM, the unbiased average with momentum.

    feduplink federate --aggregation server_momentum:Momentum --policies ideal,openloop

in the directory of this file.
"""

import torch

from feduplink.federated import Aggregation, Arrivals, UnbiasedAverage
from feduplink.federated.models import Weights

DECAY = 0.9


class Momentum(Aggregation):
    """v ← 0.9 v + Δ and w ← w + v, Δ the unbiased average of the workers' updates."""

    def initial_state(self, model: Weights) -> Weights:
        """The velocity v, at first 0; checkpoints keep it."""
        return {name: torch.zeros_like(weight) for name, weight in model.items()}

    def aggregate(
        self, model: Weights, local: Weights, arrivals: Arrivals, state: Weights
    ) -> Weights:
        """One step."""
        average = UnbiasedAverage().aggregate(model, local, arrivals, {})
        for name, weight in model.items():
            state[name] = DECAY * state[name] + average[name] - weight
        return {name: weight + state[name] for name, weight in model.items()}
