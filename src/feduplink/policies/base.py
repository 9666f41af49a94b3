"""Power policies: CSI in, transmit powers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from feduplink.channels import Channels
from feduplink.channels.csi import check_csi
from feduplink.errors import InputError
from feduplink.problem import Problem
from feduplink.randomness import stream_seed
from feduplink.scenario import Scenario
from feduplink.settings import SILENCE_W, Architecture


@dataclass(frozen=True)
class Deployment:
    """A cell with its problem, and what is known of its channels beforehand.

    Attributes:
        scenario: the cell and its radio.
        training: channels to tune it on, (N, L, L).
        problem: what the policy has to solve there; None is what the scenario describes.
        recorded: they are all that is known; more cannot be drawn from the scenario.
        seed: of random numbers.

    """

    scenario: Scenario
    training: Tensor
    problem: Problem | None = None
    recorded: bool = False
    seed: int = 0

    @classmethod
    def from_channels(cls, scenario: Scenario, channels: Channels, *, seed: int = 0) -> Deployment:
        """The problem of the scenario, with the training part of its channels to tune on."""
        return cls(scenario, channels.training, recorded=channels.recorded, seed=seed)


#: That powers are computed from: 32,768 channels of 8 workers. More would only need more memory.
_GAINS_AT_ONCE = 1 << 21


def silence(power: Tensor, below_w: float = SILENCE_W) -> Tensor:
    """Powers under ``below_w`` become exactly zero."""
    return torch.where(power < below_w, 0.0, power)


class Policy(ABC):
    """A power policy p(H) for a scenario.

    One of your own is a subclass with a ``name`` and ``powers``. If it has settings to be found,
    :meth:`for_deployment` finds them; if it has something to be stored besides the scenario,
    :meth:`tensors` and :meth:`from_tensors` do. Everything else works by itself: tables, figures,
    federations, saving and loading, the command line.

    Attributes:
        name: how tables, files and the command line call it.
        summary: what it does, in a few words, for readers of tables and pages.
        by_default: whether it is compared where no policies are named.
        is_tuned: whether :meth:`for_deployment` looks at the training channels.
        colour, marker: how matplotlib draws it in all figures; None takes what is free.

    ``by_default``, ``colour`` and ``marker`` are said of a class itself, not of those derived from
    it: a policy derived from a shipped one is another one, and looks like another one.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    by_default: ClassVar[bool] = False
    is_tuned: ClassVar[bool] = False
    colour: ClassVar[str | None] = None
    marker: ClassVar[str | None] = None

    def __init__(self, scenario: Scenario) -> None:
        super().__init__()
        self.scenario = scenario

    @classmethod
    def for_deployment(cls, deployment: Deployment) -> Self:
        """The policy for a deployment, with what has to be found for it."""
        return cls(deployment.scenario)

    def __repr__(self) -> str:
        """Its kind, the scenario in outline, and how many numbers it stores."""
        stored = sum(tensor.numel() for tensor in self.tensors().values())
        numbers = f", {stored:,} stored numbers" if stored else ""
        return f"{type(self).__name__}({self.name} for {self.scenario.workers} workers{numbers})"

    @property
    def silence_w(self) -> float:
        """Powers below this are zero, W."""
        return SILENCE_W

    @property
    def fixed_workers(self) -> int | None:
        """The only number of workers the policy takes, or None if it takes any.

        The radio's constants may be listed per worker; then they are for these workers only.
        """
        return self.scenario.listed_per_worker("pmax_dbw", "static_power_w")

    def allocate(self, csi: Tensor) -> Tensor:
        """Transmit powers in W for valid CSI: (..., L, L) to (..., L), in [0, Pmax]."""
        check_csi(csi, self.fixed_workers)
        channels = csi.reshape(-1, *csi.shape[-2:])
        at_once = max(1, _GAINS_AT_ONCE // csi.shape[-1] ** 2)
        power = torch.cat([self._limited(part) for part in channels.split(at_once)])
        return power.reshape(csi.shape[:-1])

    def _limited(self, csi: Tensor) -> Tensor:
        """Powers within [0, Pmax], exactly zero where they are negligible, (N, L, L) to (N, L)."""
        with torch.no_grad():
            power = self.powers(csi)
        power = torch.minimum(power.to(csi.dtype).clamp_min(0.0), self.scenario.pmax_w.to(csi))
        return silence(power, self.silence_w)

    def tensors(self) -> dict[str, Tensor]:
        """What has to be stored besides the scenario to restore the policy."""
        return {}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """Inverse of :meth:`tensors`."""
        return cls(scenario)

    @abstractmethod
    def powers(self, csi: Tensor) -> Tensor:
        """Powers in W for checked CSI, (N, L, L) to (N, L)."""


class NeuralPolicy(Policy, nn.Module):
    """A policy with weights to learn; ``powers`` is differentiable."""

    @classmethod
    def for_deployment(cls, deployment: Deployment) -> Self:
        """Training takes long: it is a command of its own."""
        raise InputError(
            f"policies: {cls.name} has to be learned first; train it with 'feduplink train "
            f"--policy {cls.name} --out DIR' and give DIR instead of {cls.name}."
        )

    #: What the architecture of such a network says.
    architecture_type: ClassVar[type[Architecture]] = Architecture
    #: Adam's step in primal-dual training, unless another one is asked for.
    learning_rate: ClassVar[float] = 5e-4

    def __init__(self, scenario: Scenario, architecture: Architecture | None = None) -> None:
        super().__init__(scenario)
        self.architecture = architecture or self.architecture_type()
        least_w = float(scenario.pmax_w.min())
        if self.architecture.silence_w >= least_w:
            raise InputError(
                f"silence_w: {self.architecture.silence_w:g} W would silence a worker at its Pmax "
                f"of {least_w:g} W; accepted: less than that."
            )

    @classmethod
    def initialised(
        cls, scenario: Scenario, seed: int = 0, architecture: Architecture | None = None
    ) -> Self:
        """A policy with random weights from the seed's model stream."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model"))
            return cls(scenario, architecture)

    @property
    def silence_w(self) -> float:
        """Powers below this are zero, W."""
        return self.architecture.silence_w

    def tensors(self) -> dict[str, Tensor]:
        """The weights and the architecture."""
        return {**self.state_dict(), **self.architecture.tensors()}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """A policy of this architecture with these weights."""
        architecture, weights = cls.architecture_type.split(tensors)
        policy = cls(scenario, architecture)
        policy.load_state_dict(weights)
        return policy

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return next(self.parameters()).dtype

    def forward(self, csi: Tensor) -> Tensor:
        """As :meth:`powers`, with silent workers at exactly zero."""
        return silence(self.powers(csi), self.silence_w)
