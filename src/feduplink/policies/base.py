"""Base classes of policies, which map CSI to transmit powers or to the phases of a round."""

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

#: A PyTorch tensor or a NumPy array; a function returns the kind that it was given.
ArrayT = TypeVar("ArrayT", Tensor, NDArray[Any])

#: Maximum number of gains per call of ``powers``, to bound memory: 32,768 channels of 8 workers.
_MAX_GAINS_PER_BATCH = 1 << 21


def silence(power: Tensor, below_w: float = SILENCE_W) -> Tensor:
    """Set powers below a threshold to exactly zero.

    Args:
        power: transmit powers, any shape, W.
        below_w: threshold, W.

    Returns:
        The powers, in the shape of ``power``, W.

    >>> silence(torch.tensor([1e-9, 0.01]), below_w=1e-6)
    tensor([0.0000, 0.0100])
    """
    return torch.where(power < below_w, 0.0, power)


@dataclass(frozen=True)
class Feedback:
    """Outcome of a round as the base station observes it.

    Attributes:
        transmitting: workers that transmitted, (L,) bool.
        arrived: workers whose upload arrived, (L,) bool.
    """

    transmitting: Tensor
    arrived: Tensor


@dataclass(frozen=True)
class TuningContext:
    """Channels, problem and seed with which :meth:`Policy.make` tunes a policy.

    Attributes:
        channels: channels whose training split the policy is tuned on; None draws channels from
            the scenario.
        problem: optimisation problem; None uses the problem of the scenario.
        seed: seed of random numbers.
    """

    channels: Channels | None = None
    problem: Problem | None = None
    seed: int = 0


class Policy(ABC):
    """Abstract base class of transmission policies.

    A policy decides in every round which workers transmit, when and at which power. A
    :class:`PowerPolicy` sets one power per worker and round; a :class:`SchedulePolicy` sets the
    phases of a round.

    A subclass overrides :meth:`make` if it has parameters to tune, and :meth:`tensors` and
    :meth:`from_tensors` if it has state to save besides the scenario. Tables, figures,
    federations, files and the command line then support it without further code.

    Args:
        scenario: the cell and its radio.

    Attributes:
        name: name in tables, files and on the command line; the class name by default.
        summary: short description for tables and pages.
        by_default: whether a comparison includes the policy if no policies are named. A derived
            class does not inherit the value.
        has_state: whether a decision depends on earlier rounds. Federations call :meth:`step` once
            per round if it does, and once for all rounds otherwise.
        is_lossless: whether every upload arrives; time and energy are then undefined.
        options: names of the additional keyword arguments of :meth:`make`.
        open_options: those of ``options`` that :meth:`with_options` accepts.
        algorithm: learning algorithm that trains the policy, a name in ``registry.ALGORITHMS`` or
            ``package.module:Class``; None if the policy is not trained.
        colour, marker: matplotlib colour and marker in all figures; None assigns a free one. A
            derived class does not inherit them.
        kappa: price of energy κ, s/J; None if the policy does not use one.
        max_verdict_channels: maximum number of channels that ``evaluate`` draws
            to decide the verdict; lower for policies that are slow per channel.

    >>> from feduplink.policies import make_policy
    >>> isinstance(make_policy("max", Scenario(workers=2)), Policy)
    True
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
        """Make the policy for a scenario and tune its parameters, if it has any.

        Args:
            scenario: the cell and its radio.
            context: channels to tune on, the problem and the seed.

        Returns:
            The tuned policy.
        """
        return cls(scenario)

    def with_options(self, scenario: Scenario, context: TuningContext, **options: Any) -> Policy:
        """Return the policy with other values of its ``open_options``.

        Args:
            scenario: the cell and its radio.
            context: channels to tune on, the problem and the seed.
            options: keyword arguments of :meth:`make` that ``open_options`` names.

        Returns:
            The policy.
        """
        return self

    def __repr__(self) -> str:
        """Class, name, number of workers and number of stored values."""
        stored = sum(tensor.numel() for tensor in self.tensors().values())
        numbers = f", {stored:,} stored numbers" if stored else ""
        return f"{type(self).__name__}({self.name} for {self.scenario.workers} workers{numbers})"

    @property
    def fixed_workers(self) -> int | None:
        """Required number of workers L; None if the policy accepts any number.

        A scenario that lists Pmax or the static power per worker fixes L.
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
        """Decide the next round, or a batch of rounds if the policy has no state.

        Args:
            csi: observed CSI H in units of 1/W, (..., L, L).
            feedback: outcome of the previous round; None in the first round.
            present: workers in the federation, (..., L) bool; None means all.
            bits: upload size Z in bits, () or (L,); None uses the model with 39,760 weights.

        Returns:
            Powers (..., L) in W within [0, Pmax], or the phases of the rounds.

        Raises:
            InputError: if ``csi`` is not valid or the policy does not accept its number of workers.
        """

    def reset(self) -> None:  # noqa: B027 (most policies have no state)
        """Reset the state of the policy to that before the first round."""

    def _check_present(self, present: Tensor) -> None:
        if self.fixed_workers and not present.all():
            raise InputError(
                f"present: {self.name} takes exactly {self.fixed_workers} workers, but some are "
                "absent; accepted with absent workers: policies for any number of workers."
            )

    @property
    def registered_name(self) -> str:
        """Name under which a file refers to the policy's class."""
        return POLICIES.name_of(type(self))

    def tensors(self) -> dict[str, Tensor]:
        """Parameters of the policy as tensors.

        Returns:
            Tensors by name, from which and the scenario :meth:`from_tensors` restores the policy.
        """
        return {}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """Inverse of :meth:`tensors`.

        Args:
            scenario: scenario of the policy.
            tensors: tensors by name.

        Returns:
            The policy.
        """
        return cls(scenario)

    def identity(self) -> dict[str, Any]:
        """Identity of the policy: a federation can be resumed only with policies of equal identity.

        Returns:
            Name, scenario and checksum of the tensors, JSON-compatible.
        """
        return {
            "name": self.registered_name,
            "scenario": self.scenario.model_dump(mode="json"),
            "tensors": checksum(self.tensors(), {}),
        }


class PowerPolicy(Policy):
    """Abstract base class of policies p(H) that set one power per worker and round.

    All workers start to transmit at the same time. A subclass implements :meth:`powers`.

    Args:
        scenario: the cell and its radio.

    >>> class HalfPower(PowerPolicy):
    ...     def powers(self, csi):
    ...         return 0.5 * self.scenario.max_power.expand(csi.shape[:-1])
    >>> HalfPower(Scenario(workers=2)).allocate(torch.ones(1, 2, 2))
    tensor([[0.0050, 0.0050]])
    """

    @property
    def silence_w(self) -> float:
        """Threshold below which a power is set to zero, W."""
        return SILENCE_W

    @abstractmethod
    def powers(self, csi: Tensor) -> Any:
        """Compute transmit powers; :meth:`allocate` limits them to [0, Pmax].

        Args:
            csi: valid CSI H in units of 1/W, (N, L, L).

        Returns:
            Powers (N, L) in W, as a tensor or a NumPy array.
        """

    def step(
        self,
        csi: Tensor,
        feedback: Feedback | None = None,
        *,
        present: Tensor | None = None,
        bits: Tensor | None = None,
    ) -> Tensor:
        """Powers of the next round or rounds, (..., L) W; 0 for absent workers.

        The policy is given the submatrix of H of the workers that are present. Arguments are those
        of :meth:`Policy.step`.
        """
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
        """Validate CSI and allocate transmit powers, without gradients.

        Powers below ``silence_w`` are set to zero. :meth:`powers` of a neural policy is
        differentiable.

        Args:
            csi: CSI H in units of 1/W, (..., L, L), as a tensor or a NumPy array.

        Returns:
            Powers (..., L) in W within [0, Pmax], of the type of ``csi``.

        Raises:
            InputError: if ``csi`` is not valid or the policy does not accept its number of workers.
        """
        if not isinstance(csi, Tensor):
            return self.allocate(torch.as_tensor(csi)).numpy()
        check_csi(csi, self.fixed_workers)
        channels = csi.reshape(-1, *csi.shape[-2:])
        batch_size = max(1, _MAX_GAINS_PER_BATCH // csi.shape[-1] ** 2)
        power = torch.cat([self._limited(part) for part in channels.split(batch_size)])
        return power.reshape(csi.shape[:-1])

    def _limited(self, csi: Tensor) -> Tensor:
        """Powers within [0, Pmax], zero below ``silence_w``, (N, L, L) to (N, L), W."""
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
    """Abstract base class of policies that divide a round into phases.

    Each phase has its own transmitting workers and powers. A subclass implements
    :meth:`schedules`.

    Args:
        scenario: the cell and its radio.

    >>> class OneByOne(SchedulePolicy):
    ...     def schedules(self, csi, present, bits):
    ...         return Schedule.tdma(self.scenario.max_power * present)
    >>> policy = OneByOne(Scenario(workers=2))
    >>> policy.step(torch.ones(3, 2, 2)).power.shape  # 3 rounds, 2 phases, 2 workers
    torch.Size([3, 2, 2])
    """

    @abstractmethod
    def schedules(self, csi: Tensor, present: Tensor, bits: Tensor) -> Schedule:
        """Compute the phases of N rounds.

        Args:
            csi: valid CSI H in units of 1/W, (N, L, L).
            present: workers that may transmit, (N, L) bool.
            bits: upload size Z in bits, () or (L,).

        Returns:
            The schedules of the rounds.
        """

    def step(
        self,
        csi: Tensor,
        feedback: Feedback | None = None,
        *,
        present: Tensor | None = None,
        bits: Tensor | None = None,
    ) -> Schedule:
        """Phases of the next round or rounds, with powers within [0, Pmax].

        Arguments are those of :meth:`Policy.step`.
        """
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
    """A policy that calls a function and has the function's name.

    Args:
        scenario: the cell and its radio.
        function: ``f(csi, scenario)`` maps H (N, L, L) in 1/W to powers (N, L) in W, as a tensor
            or a NumPy array.

    """

    def __init__(self, scenario: Scenario, function: Callable[[Tensor, Scenario], Any]) -> None:
        super().__init__(scenario)
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)  # type: ignore[misc]

    def powers(self, csi: Tensor) -> Any:
        """Powers that the function returns, (N, L, L) to (N, L), W."""
        return self.function(csi, self.scenario)

    @property
    def registered_name(self) -> str:
        """Name under which a file refers to the function."""
        return POLICIES.name_of(self.function)


class NeuralPolicy(PowerPolicy, nn.Module):
    """Abstract base class of neural networks that map CSI to powers.

    A subclass implements :meth:`powers`, which is differentiable in the weights.

    Args:
        scenario: the cell and its radio.
        architecture: settings of the network; None uses the defaults of ``architecture_type``.

    Attributes:
        architecture_type: class of the network's settings.
        learning_rate: default step size of Adam in primal-dual training.

    Raises:
        InputError: if ``silence_w`` of the architecture is not below every Pmax.
    """

    algorithm = "primal-dual"

    @abstractmethod
    def powers(self, csi: Tensor) -> Tensor:
        """Compute differentiable transmit powers (N, L) in W for valid CSI (N, L, L)."""

    @classmethod
    def make(cls, scenario: Scenario, context: TuningContext) -> Self:
        """Raise an error: an untrained network cannot be evaluated."""
        raise InputError(
            f"policies: {cls.name} is not trained; train it with 'feduplink train "
            f"--policy {cls.name} --out DIR' and give DIR instead of {cls.name}."
        )

    architecture_type: ClassVar[type[Architecture]] = Architecture
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
        """Make a policy with random weights.

        Args:
            scenario: the cell and its radio.
            seed: seed of the weights.
            architecture: settings of the network; None uses the defaults.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(seed, "model"))
            return cls(scenario, architecture)

    @property
    def silence_w(self) -> float:
        """Threshold below which a power is set to zero, W."""
        return self.architecture.silence_w

    def tensors(self) -> dict[str, Tensor]:
        """Weights and architecture."""
        return {**self.state_dict(), **self.architecture.tensors()}

    @classmethod
    def from_tensors(cls, scenario: Scenario, tensors: dict[str, Tensor]) -> Self:
        """Restore a policy from its weights and architecture."""
        architecture, weights = cls.architecture_type.split(tensors)
        policy = cls(scenario, architecture)
        policy.load_state_dict(weights)
        return policy

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the weights."""
        return next(self.parameters()).dtype

    def forward(self, csi: Tensor) -> Tensor:
        """Differentiable powers (N, L) in W, zero below ``silence_w``, for CSI (N, L, L)."""
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
    """Estimate the objective and the constraints of a policy on channels.

    The policy observes CSI with the scenario's noise of variance ``csi_noise``; objective and
    constraints use the true channels.

    Args:
        policy: policy to judge.
        csi: true channels H in units of 1/W, (N, L, L).
        scenario: the cell and its radio.
        problem: objective and constraints; None uses the problem of the scenario.
        seed: seed of the CSI noise.

    Returns:
        Objective, constraints and their confidence intervals.

    Raises:
        InputError: if the policy is lossless or has a state.
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
    """Let a policy allocate powers or schedules from noisy CSI.

    Args:
        policy: policy without state.
        csi: true channels H in units of 1/W, (N, L, L).
        scenario: defines the CSI noise and Pmax; the policy's own scenario may differ.
        seed: seed of the CSI noise.
        noise: random stream of the noise, as in :func:`feduplink.channels.observe_csi`.
        block: index of the block of channels; blocks have independent noise.
        device: device that the policy computes on; None is that of ``csi``. A policy that is a
            module is moved to it and back.

    Returns:
        Powers (N, L) in W as float64, or schedules, within [0, Pmax] and on the device of ``csi``.

    Raises:
        InputError: if the policy is lossless or has a state.
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
    # In float32 a rounded Pmax may exceed the true one, and the objective then the optimum.
    power = decided.to(csi.device, torch.float64)
    return torch.minimum(power, scenario.max_power.to(power))


@contextmanager
def _moved(policy: Policy, device: torch.device) -> Iterator[None]:
    """Context in which a policy that is a module is on ``device``."""
    if not isinstance(policy, nn.Module):
        yield
        return
    home = next((t.device for t in chain(policy.parameters(), policy.buffers())), device)
    policy.to(device)
    try:
        yield
    finally:
        policy.to(home)
