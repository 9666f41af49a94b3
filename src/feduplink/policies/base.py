"""Base classes of policies: CSI in, transmit powers or the phases of a round out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Self, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from feduplink.channels import Channels, check_csi, observe_csi
from feduplink.errors import InputError
from feduplink.judgement import Judgement, judge
from feduplink.link import Schedule
from feduplink.problem import Problem
from feduplink.progress import track
from feduplink.randomness import Stream, stream_seed
from feduplink.registry import POLICIES, class_name
from feduplink.scenario import Scenario
from feduplink.settings import MAX_VERDICT_CHANNELS, SILENCE_W, Architecture
from feduplink.storage.tensorfile import checksum
from feduplink.validation import usable_device

#: An array of PyTorch or NumPy; what is computed from it is of the same kind.
ArrayT = TypeVar("ArrayT", Tensor, NDArray[Any])

#: Gains that powers are computed from at once: 32,768 channels of 8 workers, to save memory.
_GAINS_AT_ONCE = 1 << 21


def silence(power: Tensor, below_w: float = SILENCE_W) -> Tensor:
    """Powers under ``below_w`` become exactly zero."""
    return torch.where(power < below_w, 0.0, power)


@dataclass(frozen=True)
class Feedback:
    """What the base station knows of a round after it.

    Attributes:
        transmitting: workers that transmitted, (L,) bool.
        arrived: workers whose model arrived, (L,) bool.
    """

    transmitting: Tensor
    arrived: Tensor


@dataclass(frozen=True)
class TuningContext:
    """What a policy is tuned on and for.

    Attributes:
        channels: the policy is tuned on the training channels; None draws some.
        problem: to be solved; None is the problem that the scenario describes.
        seed: of random numbers.
    """

    channels: Channels | None = None
    problem: Problem | None = None
    seed: int = 0


class Policy(ABC):
    """Decides for every round which workers transmit, when and at which power.

    :class:`PowerPolicy` sets one power per worker and round, :class:`SchedulePolicy` the phases of
    a round. If a policy of your own has settings to be found, :meth:`make` finds them; if it has
    something to be stored besides the scenario, :meth:`tensors` and :meth:`from_tensors` do.
    Everything else works by itself: tables, figures, federations, saving and loading, the command
    line.

    Attributes:
        name: name in tables, files and on the command line; by default that of the class.
        summary: what it does, in a few words, for readers of tables and pages.
        by_default: whether it is compared where no policies are named.
        has_state: whether a decision depends on the rounds before. Federations then ask for one
            round after the other, else for all rounds at once.
        is_lossless: every upload arrives, and time and energy are undefined.
        options: names of the further arguments of :meth:`make`.
        open_options: those of them that an object still takes, as one whose network is trained.
        algorithm: learning algorithm that trains the policy, a name in ``registry.ALGORITHMS`` or
            ``package.module:Class``; None: there is nothing to train.
        colour, marker: of matplotlib, for all figures; None takes a free one.
        kappa: price of energy κ that the policy chooses its powers by, s/J; None: there is none.
        max_verdict_channels: largest number of drawn channels that ``evaluate`` asks for powers on
            to decide the verdict; lower it for a policy that takes many milliseconds per channel.

    ``by_default``, ``colour`` and ``marker`` are those of a class itself and not of derived ones: a
    policy derived from a shipped one is another one, and looks like another one.
    """

    name: ClassVar[str] = class_name()
    summary: ClassVar[str] = ""
    by_default: ClassVar[bool] = False
    has_state: ClassVar[bool] = False
    is_lossless: ClassVar[bool] = False
    options: ClassVar[tuple[str, ...]] = ()
    open_options: tuple[str, ...] = ()
    algorithm: ClassVar[str | None] = None
    colour: ClassVar[str | None] = None
    marker: ClassVar[str | None] = None
    kappa: float | None = None
    max_verdict_channels: ClassVar[int] = MAX_VERDICT_CHANNELS

    def __init__(self, scenario: Scenario) -> None:
        super().__init__()
        self.scenario = scenario

    @classmethod
    def make(cls, scenario: Scenario, context: TuningContext) -> Self:
        """Make the policy for a scenario and tune it, if it has parameters to tune.

        Args:
            scenario: the cell and its radio.
            context: channels to tune on, the problem and the seed.
        """
        return cls(scenario)

    def with_options(self, scenario: Scenario, context: TuningContext, **options: Any) -> Policy:
        """The policy with further arguments of :meth:`make`, those in ``open_options``."""
        return self

    def __repr__(self) -> str:
        """Its kind, the scenario in outline, and how many numbers it stores."""
        stored = sum(tensor.numel() for tensor in self.tensors().values())
        numbers = f", {stored:,} stored numbers" if stored else ""
        return f"{type(self).__name__}({self.name} for {self.scenario.workers} workers{numbers})"

    @property
    def fixed_workers(self) -> int | None:
        """The only number of workers the policy takes, or None if it takes any.

        The radio's constants may be listed per worker; then they are for these workers only.
        """
        return self.scenario.listed_per_worker("pmax_dbw", "static_power_w")

    @abstractmethod
    def step(
        self,
        csi: Tensor,
        feedback: Feedback | None = None,
        *,
        present: Tensor | None = None,
        bits: Tensor | None = None,
    ) -> Tensor | Schedule:
        """Decide on the next round, or on a batch of rounds if the policy has no state.

        Args:
            csi: H as the policy sees it, (..., L, L).
            feedback: on the round before; None in the first round.
            present: workers in the federation, (..., L) bool; None is all.
            bits: Z of one upload, () or (L,); by default of the model with 39,760 weights.

        Returns:
            Powers (..., L) in W within [0, Pmax], or the phases of the rounds.
        """

    def reset(self) -> None:  # noqa: B027 (without a state there is nothing to forget)
        """Forget the rounds so far, if the policy has a state."""

    def _check_present(self, present: Tensor) -> None:
        if self.fixed_workers and not present.all():
            raise InputError(
                f"present: {self.name} takes exactly {self.fixed_workers} workers; accepted "
                "while workers come and go: policies for any number of them."
            )

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

    def identity(self) -> dict[str, Any]:
        """What a resumed federation must agree on, for JSON: name, scenario and tensors."""
        return {
            "name": self.registered_name,
            "scenario": self.scenario.model_dump(mode="json"),
            "tensors": checksum(self.tensors(), {}),
        }


class PowerPolicy(Policy):
    """A policy p(H) that sets one power per worker and round; all workers start together.

    One of your own is a subclass with ``powers``.
    """

    @property
    def silence_w(self) -> float:
        """Powers below this are zero, W."""
        return SILENCE_W

    @abstractmethod
    def powers(self, csi: Tensor) -> Any:
        """Powers in W for checked CSI, (N, L, L) to (N, L), as a tensor or a NumPy array."""

    def step(
        self,
        csi: Tensor,
        feedback: Feedback | None = None,
        *,
        present: Tensor | None = None,
        bits: Tensor | None = None,
    ) -> Tensor:
        """Powers of the next round; the policy sees the workers present as another, smaller L."""
        if present is None or bool(present.all()):
            return self.allocate(csi)
        self._check_present(present)
        power = torch.zeros(present.shape, dtype=csi.dtype)
        size = present.shape[-1]
        rows, there = power.view(-1, size), present.reshape(-1, size)
        seen = csi.reshape(-1, *csi.shape[-2:])
        for workers in torch.tensor(sorted(set(map(tuple, there.tolist())))):
            if not bool(workers.any()):
                continue
            rounds = (there == workers).all(-1).nonzero()[:, 0]
            columns = workers.nonzero()[:, 0]
            smaller = seen[rounds][:, columns][:, :, columns]
            rows[rounds[:, None], columns] = self.allocate(smaller).to(csi.dtype)
        return power

    def allocate(self, csi: ArrayT) -> ArrayT:
        """Transmit powers in W for valid CSI: (..., L, L) to (..., L), in [0, Pmax].

        A NumPy array gives a NumPy array. Without gradients; ``powers`` of policies with weights is
        differentiable.
        """
        if not isinstance(csi, Tensor):
            return self.allocate(torch.as_tensor(csi)).numpy()
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
        power = torch.minimum(power.to(csi.dtype).clamp_min(0.0), self.scenario.max_power.to(csi))
        return silence(power, self.silence_w)


class SchedulePolicy(Policy):
    """A policy that sets the phases of a round: senders and powers may change in its course.

    One of your own is a subclass with ``schedules``.
    """

    @abstractmethod
    def schedules(self, csi: Tensor, present: Tensor, bits: Tensor) -> Schedule:
        """The phases of N rounds.

        Args:
            csi: H as the policy sees it, (N, L, L).
            present: workers that may send, (N, L) bool.
            bits: Z of one upload, () or (L,).
        """

    def step(
        self,
        csi: Tensor,
        feedback: Feedback | None = None,
        *,
        present: Tensor | None = None,
        bits: Tensor | None = None,
    ) -> Schedule:
        """Phases of the next round or rounds, with no power above Pmax."""
        check_csi(csi, self.fixed_workers)
        if present is None:
            present = torch.ones(csi.shape[:-1], dtype=torch.bool, device=csi.device)
        self._check_present(present)
        uploaded = self.scenario.model_bits() if bits is None else bits
        rounds = csi.reshape(-1, *csi.shape[-2:])
        planned = self.schedules(rounds, present.reshape(rounds.shape[:-1]), uploaded)
        if csi.ndim == 2:
            planned = planned.take(torch.tensor(0))
        return planned.to(torch.float64).limited(self.scenario.max_power)


class FunctionPolicy(PowerPolicy):
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

    def powers(self, csi: Tensor) -> Any:
        """The powers that the function returns, (N, L, L) to (N, L), W."""
        return self.function(csi, self.scenario)

    @property
    def registered_name(self) -> str:
        """The name under which the function is found again."""
        return POLICIES.name_of(self.function)


class NeuralPolicy(PowerPolicy, nn.Module):
    """A policy with weights to learn; ``powers`` is differentiable."""

    algorithm = "primal-dual"

    @abstractmethod
    def powers(self, csi: Tensor) -> Tensor:
        """Powers in W for checked CSI, (N, L, L) to (N, L); differentiable."""

    @classmethod
    def make(cls, scenario: Scenario, context: TuningContext) -> Self:
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
        least_w = float(scenario.max_power.min())
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


@track("evaluation")
def judge_policy(
    policy: Policy,
    csi: Tensor,
    scenario: Scenario,
    problem: Problem | None = None,
    *,
    seed: int = 0,
) -> Judgement:
    """Judge ``policy`` on channels (N, L, L), by ``problem`` or by the scenario's own.

    The policy sees the CSI with the scenario's noise (variance ``csi_noise``, drawn from
    ``seed``); rates and errors are those of the true channels.
    """
    return judge(
        scenario,
        csi,
        allocate_from_noisy_csi(policy, csi, scenario, seed=seed),
        problem=problem,
    )


def allocate_from_noisy_csi(
    policy: Policy,
    csi: Tensor,
    scenario: Scenario,
    *,
    seed: int = 0,
    noise: Stream = "csi-noise",
    block: int = 0,
    device: str | torch.device | None = None,
) -> Tensor | Schedule:
    """Powers (N, L) in W or schedules that a policy decides from noisy CSI of channels (N, L, L).

    Args:
        policy: decides; its own Pmax, of the scenario that it was made for, does not matter.
        csi: true channels, to which the noise of the scenario is added.
        scenario: gives the noise and Pmax.
        seed: of the noise.
        noise: random stream of the noise, as in :func:`feduplink.channels.observe_csi`.
        block: number of the block of channels; other blocks have other noise.
        device: where powers are computed, by default where the channels are. A policy that is a
            module is moved there meanwhile, others compute where their channels are.

    Returns:
        Powers or schedules where the channels are. Powers are float64, because a rounded Pmax may
        exceed the true one, and the objective with it the optimum.
    """
    if policy.is_lossless or policy.has_state:
        lacks = "has no powers to judge" if policy.is_lossless else "needs feedback round by round"
        raise InputError(f"policies: {policy.name} {lacks}; accepted in federations only.")
    there = csi.device if device is None else usable_device(device)
    seen = observe_csi(csi, scenario, seed=seed, noise=noise, run=block).to(there)
    with _moved(policy, there):
        decided = policy.step(seen)
    if isinstance(decided, Schedule):
        return decided.to(csi.device).limited(scenario.max_power)
    power = decided.to(csi.device, torch.float64)
    return torch.minimum(power, scenario.max_power.to(power))


@contextmanager
def _moved(policy: Policy, device: torch.device) -> Iterator[None]:
    """While entered, a policy that is a module is on the device."""
    if not isinstance(policy, nn.Module):
        yield
        return
    home = next((t.device for t in chain(policy.parameters(), policy.buffers())), device)
    policy.to(device)
    try:
        yield
    finally:
        policy.to(home)
