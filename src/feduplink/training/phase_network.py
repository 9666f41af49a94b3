"""Training the network of learned schedules: mixtures of its phases are to cost little.

No teacher: the loss is the cost of the best mixture itself, whose slope in every phase is known
from the duals of the linear program. Fresh channels, cells, sizes and prices of energy in every
step.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from pydantic import Field

from feduplink.channels import draw_csi
from feduplink.lagrangian import ChannelBatch
from feduplink.progress import track
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario
from feduplink.scheduling.learned import PhaseProposal, PricedRounds, mixing_loss
from feduplink.scheduling.phase_network import PhaseNetwork
from feduplink.validation import ValidatedModel

_REPORT_EVERY = 100
#: The weights that count are a mean over about so many of the last steps.
_AVERAGED_STEPS = 200
_LARGEST_GRADIENT = 0.3
#: κ of a channel: 0 in this share of them, else log-uniform between these, s/J.
_FASTEST = 0.25
_KAPPAS = (0.2, 200.0)


class PhaseSettings(ValidatedModel):
    """Hyperparameters of the training."""

    steps: int = Field(default=2000, ge=100, le=10**7, description="batches of fresh channels")
    batch_size: int = Field(default=64, ge=1, le=10**6, description="channels of 8 workers")
    learning_rate: float = Field(default=8e-4, gt=0, le=1, description="AdamW's largest step")


@dataclass(frozen=True)
class PhaseCurriculum:
    """Cells that the network is trained for, one drawn for each batch."""

    workers: tuple[int, ...] = (8, 8, 8, 6, 10, 12, 16, 16, 24, 32)
    pmax_dbw: tuple[float, ...] = (-20.0, -20.0, -20.0, -25.0, -15.0)
    interference: tuple[float, ...] = (1.0, 1.0, 1.0, 2.0, 4.0)
    channel_models: tuple[str, ...] = ("wbs", "wbs", "wbs", "hata-urban", "hata-suburban-shadowed")

    def draw(self, count: int, generator: torch.Generator) -> PricedRounds:
        """Rounds of one cell, each with a κ of its own."""
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
        # As much work in every step: phases times workers times those that disturb them.
        count = max(1, int(count * (8 / scenario.workers) ** 3))
        batch = ChannelBatch.from_scenario(scenario, draw_csi(scenario, count, generator))
        random = torch.rand(2, count, generator=generator, device=device)
        least, most = (math.log(kappa) for kappa in _KAPPAS)
        kappa = (least + (most - least) * random[0]).exp()
        # Durations are in proportion to the bits, so any number of them will do.
        demand = torch.full_like(batch.direct, 5.0)
        return PricedRounds.from_batch(batch, demand, torch.where(random[1] < _FASTEST, 0.0, kappa))


def train_phase_network(
    settings: PhaseSettings, *, seed: int = 0, device: torch.device | str = "cpu"
) -> PhaseNetwork:
    """A network trained on fresh channels, its weights averaged over the last steps."""
    network = PhaseNetwork.initialised(seed).to(device)
    averaged = copy.deepcopy(network).requires_grad_(False)
    curriculum = PhaseCurriculum()
    generator = torch_generator(seed, "train-channels", device=torch.device(device))
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, weight_decay=1e-4
    )
    rates = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=settings.learning_rate, total_steps=settings.steps, pct_start=0.05
    )
    with track("training of learned schedules", settings.steps, "steps") as progress:
        for step in range(settings.steps):
            proposal = PhaseProposal(curriculum.draw(settings.batch_size, generator))
            before = proposal.master.value
            loss = mixing_loss(proposal, proposal.propose(network.weights))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), _LARGEST_GRADIENT)
            optimiser.step()
            rates.step()
            share = max(1 / _AVERAGED_STEPS, 1 / (step + 1))
            with torch.no_grad():
                pairs = zip(averaged.parameters(), network.parameters(), strict=True)
                for mean, weight in pairs:
                    mean.lerp_(weight, share)
            if (step + 1) % _REPORT_EVERY == 0:
                cost = float((proposal.master.value / before).mean())
                progress.advance(step + 1, {"cost over one at a time": cost})
    return averaged
