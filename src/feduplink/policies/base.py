"""Power policies: CSI in, transmit powers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from feduplink.channels import Channels, check_csi
from feduplink.errors import InputError
from feduplink.problem import Problem
from feduplink.randomness import stream_seed
from feduplink.registry import POLICIES
from feduplink.scenario import Scenario
from feduplink.settings import SILENCE_W, Architecture

#: That powers are computed from: 32,768 channels of 8 workers. More would only need more memory.
_GAINS_AT_ONCE = 1 << 21


def silence(power: Tensor, below_w: float = SILENCE_W) -> Tensor:
    """Powers under ``below_w`` become exactly zero."""
    return torch.where(power < below_w, 0.0, power)


class Policy(ABC):
    """A power policy p(H) for a scenario.

    One of your own is a subclass with a ``name`` and ``powers``. If it has settings to be found,
    :meth:`make` finds them; if it has something to be stored besides the scenario,
    :meth:`tensors` and :meth:`from_tensors` do. Everything else works by itself: tables, figures,
    federations, saving and loading, the command line.

    Attributes:
        name: how tables, files and the command line call it.
        summary: what it does, in a few words, for readers of tables and pages.
        by_default: whether it is compared where no policies are named.
        is_tuned: whether :meth:`make` tunes the policy on the training channels.
        options: names of the further arguments of :meth:`make`.
        algorithm: learning algorithm that trains the policy, a name in ``registry.ALGORITHMS`` or
            ``package.module:Class``; None: there is nothing to train.
        colour, marker: how matplotlib draws it in all figures; None takes what is free.

    ``by_default``, ``colour`` and ``marker`` are said of a class itself, not of those derived from
    it: a policy derived from a shipped one is another one, and looks like another one.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    by_default: ClassVar[bool] = False
    is_tuned: ClassVar[bool] = False
    options: ClassVar[tuple[str, ...]] = ()
    algorithm: ClassVar[str | None] = None
    colour: ClassVar[str | None] = None
    marker: ClassVar[str | None] = None

    def __init__(self, scenario: Scenario) -> None:
        super().__init__()
        self.scenario = scenario

    @classmethod
    def make(
        cls,
        scenario: Scenario,
        *,
        channels: Channels | None = None,
        problem: Problem | None = None,
        seed: int = 0,
    ) -> Self:
        """Make the policy for a scenario and tune it, if it has parameters to tune.

        Args:
            scenario: the cell and its radio.
            channels: the policy is tuned on the training channels; None draws some.
            problem: to be solved; None is the problem that the scenario describes.
            seed: of random numbers.
        """
        return cls(scenario)

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
            power = torch.as_tensor(self.powers(csi))
        if power.shape != csi.shape[:-1]:
            raise InputError(
                f"policy: {self.name} returned powers of shape {tuple(power.shape)} for channels "
                f"of shape {tuple(csi.shape)}; accepted: {tuple(csi.shape[:-1])}."
            )
        power = torch.minimum(power.to(csi.dtype).clamp_min(0.0), self.scenario.pmax_w.to(csi))
        return silence(power, self.silence_w)

    @property
    def registered_name(self) -> str:
        """The name under which the policy's class is found again, for files."""
        return POLICIES.name_of(type(self))

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


class FunctionPolicy(Policy):
    """A plain function as a policy, named after the function.

    Args:
        scenario: the cell and its radio.
        function: ``f(csi, scenario)`` maps H (N, L, L) to powers (N, L) in W, as a tensor or a
            NumPy array.

    """

    def __init__(self, scenario: Scenario, function: Callable[[Tensor, Scenario], Any]) -> None:
        super().__init__(scenario)
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)  # type: ignore[misc]

    def powers(self, csi: Tensor) -> Tensor:
        """The powers that the function returns, (N, L, L) to (N, L), W."""
        return torch.as_tensor(self.function(csi, self.scenario))

    @property
    def registered_name(self) -> str:
        """The name under which the function is found again."""
        return POLICIES.name_of(self.function)


class NeuralPolicy(Policy, nn.Module):
    """A policy with weights to learn; ``powers`` is differentiable."""

    algorithm = "primal-dual"

    @classmethod
    def make(
        cls,
        scenario: Scenario,
        *,
        channels: Channels | None = None,
        problem: Problem | None = None,
        seed: int = 0,
    ) -> Self:
        """Refuse: training takes long and is a command of its own."""
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
