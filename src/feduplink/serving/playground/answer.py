"""Evaluation of a scene: powers of every policy, link quality, time and energy of the round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from feduplink import link
from feduplink.errors import InputError
from feduplink.lagrangian import ChannelBatch, DualPoint, Prices, improve, starting_points
from feduplink.policies import (
    OFDMA,
    TDMA,
    DualPolicy,
    FullPower,
    LearnedSchedule,
    OpenLoop,
    Orthogonal,
    Policy,
    PowerPolicy,
    UnrolledNetwork,
    UnrolledPolicy,
)
from feduplink.problem import Problem
from feduplink.scenario import Scenario
from feduplink.scheduling import learned_schedules, shipped_phase_network
from feduplink.serving.payloads import Phase
from feduplink.serving.playground.scene import (
    MODEL_WEIGHTS,
    RadioSetting,
    Scene,
    SceneChannel,
    Setting,
)
from feduplink.serving.playground.tuned_settings import TuningStatus

#: Number of Newton sweeps from every starting point.
NEWTON_SWEEPS = 2
#: Default colour of a policy.
_DEFAULT_COLOUR = "#6060F0"


class WorkerAnswer(BaseModel):
    """A worker of the scene."""

    id: int
    weight: float = Field(description="Weight in the objective")
    distance_m: float = Field(description="Distance to the nearest base station, m")
    snr_db: float = Field(description="SNR at Pmax without interference, dB")


class ShownPolicy(BaseModel):
    """A policy on the page."""

    name: str
    colour: str

    @classmethod
    def of(cls, kind: type[Policy], **fields: Any) -> Self:
        """Entry for a class of policies, with further fields."""
        return cls(name=kind.name, colour=kind.colour or _DEFAULT_COLOUR, **fields)


class PolicyAnswer(ShownPolicy):
    """Powers of a policy and their effects; lists have an entry per worker of the scene."""

    power_w: list[float]
    sinr: list[float]
    success: list[float] = Field(description="Packet success rate while all senders transmit")
    rate: list[float] = Field(description="Rate while all senders transmit, nats/s/Hz")
    efficiency: list[float] = Field(description="Energy efficiency, nats/s/Hz/W")
    airtime_s: list[float] = Field(
        description="Time until the upload is complete, when the worker stops transmitting, s"
    )
    energy_j: list[float]
    silent: list[int] = Field(description="Ids of the workers with power 0")
    objective: float | None = Field(description="Utility on this channel; null: minus infinity")
    lagrangian_gap: float = Field(
        description="Largest Lagrangian on this channel minus that at the policy's powers"
    )
    round_s: float
    round_j: float


class AbsentPolicy(ShownPolicy):
    """A policy without powers for the scene."""

    why: str


class OrthogonalAnswer(ShownPolicy):
    """Time and energy of the round with orthogonal access."""

    round_s: float
    round_j: float


class ScheduleAnswer(ShownPolicy):
    """A schedule that minimises time + κ · energy and in which every worker uploads its model."""

    kappa: float = Field(description="Price of energy, s/J")
    phases: list[Phase]
    round_s: float
    round_j: float

    @classmethod
    def from_channel(
        cls, csi: Tensor, scenario: Scenario, bits: float | Tensor, kappa: float
    ) -> Self:
        """Schedule of the pretrained network for H (L, L), ``bits`` per worker and κ in s/J."""
        schedule = learned_schedules(
            shipped_phase_network(), scenario, csi[None], bits, seconds_per_joule=kappa
        ).limited(scenario.max_power)
        computing_j = (scenario.compute_energy * bits).expand(csi.shape[-1]).sum()
        return cls.of(
            LearnedSchedule,
            kappa=kappa,
            phases=Phase.from_schedule(schedule, 0),
            round_s=float(schedule.time_s),
            round_j=float(schedule.energy_j(scenario.static_power)) + float(computing_j),
        )


class MultipliersAnswer(RadioSetting):
    """Multipliers used in the answer: setting, number of channels, accuracy."""

    own: bool = Field(description="Whether they were calibrated for the scene's setting")
    searching: bool = Field(description="Whether the scene's setting is being calibrated")
    failure: str | None = Field(description="Reason why they cannot be found")
    workers: int
    channels: int = Field(description="Number of training channels")
    shortfall: float | None = Field(
        description="Largest relative violation of a threshold by pdx, mean over test channels"
    )
    shortfall_error: float | None = Field(description="Half the width of its confidence interval")

    @classmethod
    def from_status(cls, status: TuningStatus, setting: Setting) -> Self:
        """Multipliers in use for ``setting``."""
        tuned = status.tuned
        return cls(
            own=tuned.setting == setting,
            searching=status.searching,
            failure=status.failure,
            workers=len(tuned.setting.ids),
            channels=tuned.channels,
            shortfall=_finite(tuned.shortfall),
            shortfall_error=_finite(tuned.shortfall_error),
            **tuned.setting.radio,
        )


class SceneAnswer(BaseModel):
    """Response of ``POST /v1/scene``."""

    workers: list[WorkerAnswer]
    policies: list[PolicyAnswer]
    absent: list[AbsentPolicy]
    orthogonal: list[OrthogonalAnswer]
    schedule: ScheduleAnswer
    largest_lagrangian: float = Field(description="Largest Lagrangian on this channel")
    multipliers: MultipliersAnswer


class SceneEvaluation:
    """A scene with its channel and its problem.

    Args:
        scene: a validated scene.
        base: scenario of the cell.
        channel: channel that computes H.
        status: multipliers and open-loop parameters for the setting of the scene.
    """

    def __init__(
        self, scene: Scene, base: Scenario, channel: SceneChannel, status: TuningStatus
    ) -> None:
        self.scene, self.status, self.setting = scene, status, Setting.from_scene(scene)
        self.scenario = self.setting.scenario(base)
        self.problem = Problem.from_scenario(self.scenario)
        self.distances_m = channel.distances_m(scene)
        self.csi = channel.csi(scene)
        self.point: DualPoint = status.tuned.point_for(self.setting, self.scenario)
        self.prices: Prices = self.point.prices(self.problem, self.scenario)
        self.batch = ChannelBatch.from_scenario(self.scenario, self.csi[None])
        self.bits = self.scenario.model_bits(MODEL_WEIGHTS)

    def answer(self, network: UnrolledNetwork, trained: Sequence[PowerPolicy]) -> SceneAnswer:
        """Evaluate all policies; ``dual`` has the largest Lagrangian found.

        Args:
            network: network of ``pdx``.
            trained: further policies, whose powers are limited to the Pmax of the scene.

        Returns:
            The response.
        """
        scenario = self.scenario
        policies: list[PowerPolicy] = [FullPower(scenario), Orthogonal(scenario)]
        absent = []
        if (parameters := self.status.tuned.open_loop) is not None:
            policies.insert(1, OpenLoop(scenario, target=parameters[0], fraction=parameters[1]))
        else:
            absent.append(AbsentPolicy.of(OpenLoop, why="It is being tuned for this cell."))
        rows = [(type(policy), policy.allocate(self.csi)) for policy in policies]
        for policy in trained:
            try:
                power = torch.minimum(policy.allocate(self.csi), scenario.max_power)
                rows.append((type(policy), power.double()))
            except InputError as error:
                absent.append(AbsentPolicy.of(type(policy), why=str(error)))
        pdx = UnrolledPolicy(scenario, network, self.point)
        rows.append((UnrolledPolicy, pdx.allocate(self.csi)))
        rows.append((DualPolicy, self._maximise_lagrangian([power for _, power in rows])))
        powers = torch.stack([power for _, power in rows])
        values = self._lagrangian(powers)
        return SceneAnswer(
            workers=self._workers(),
            policies=self._rows([kind for kind, _ in rows], powers, values.max() - values),
            absent=absent,
            orthogonal=[self._orthogonal(scheme) for scheme in (TDMA, OFDMA)],
            schedule=ScheduleAnswer.from_channel(self.csi, scenario, self.bits, self.scene.kappa),
            largest_lagrangian=float(values.max()),
            multipliers=MultipliersAnswer.from_status(self.status, self.setting),
        )

    def _lagrangian(self, power: Tensor) -> Tensor:
        """Lagrangian of powers (N, L) on this channel, (N,)."""
        return self._repeated(len(power)).value(power, self.prices)

    def _repeated(self, count: int) -> ChannelBatch:
        """Batch with ``count`` copies of the channel."""
        return self.batch.take(torch.zeros(count, dtype=torch.long))

    def _maximise_lagrangian(self, others: Sequence[Tensor]) -> Tensor:
        """Maximise the Lagrangian by a local search; returns powers (L,), W.

        The search starts from the standard points and from the powers of all other policies. Its
        steps do not decrease the Lagrangian, so that no policy has a larger one.
        """
        starts = torch.cat((*starting_points(self.batch, self.prices), torch.stack([*others])))
        batch = self._repeated(len(starts))
        power = improve(batch, self.prices, starts, rounds=NEWTON_SWEEPS)
        return power[batch.value(power, self.prices).argmax()]

    def _workers(self) -> list[WorkerAnswer]:
        """Workers of the scene, with weight, distance and SNR."""
        snr = self.csi.diagonal() * self.scenario.max_power
        return [
            WorkerAnswer(id=worker, weight=weight, distance_m=distance, snr_db=decibel)
            for worker, weight, distance, decibel in zip(
                self.scene.ids,
                self.scenario.worker_weights.tolist(),
                self.distances_m.min(-1).values.tolist(),
                (10 * snr.log10()).tolist(),
                strict=True,
            )
        ]

    def _rows(
        self, kinds: Sequence[type[Policy]], powers: Tensor, gaps: Tensor
    ) -> list[PolicyAnswer]:
        """Entries of P policies with powers (P, L), W, and Lagrangian gaps (P,)."""
        scenario, ids = self.scenario, self.scene.ids
        csi = self.csi.expand(len(powers), -1, -1)
        state = link.upload(csi, powers, scenario, bits=self.bits)
        sinr, round_j = state.sinr, state.energy_j.sum(-1)
        rate = link.rate(sinr)
        efficiency = link.energy_efficiency(sinr, powers, scenario)
        success = link.success(sinr, scenario)
        objectives = self.problem.utility.value(self.problem.objective_values(sinr, powers))
        return [
            PolicyAnswer.of(
                kind,
                power_w=powers[i].tolist(),
                sinr=sinr[i].tolist(),
                success=success[i].tolist(),
                rate=rate[i].tolist(),
                efficiency=efficiency[i].tolist(),
                airtime_s=state.airtime_s[i].tolist(),
                energy_j=state.energy_j[i].tolist(),
                silent=[ids[worker] for worker in (powers[i] == 0).nonzero()[:, 0].tolist()],
                objective=_finite(float(objectives[i])),
                lagrangian_gap=float(gaps[i]),
                round_s=float(state.upload.duration_s[i]),
                round_j=float(round_j[i]),
            )
            for i, kind in enumerate(kinds)
        ]

    def _orthogonal(self, kind: type[TDMA | OFDMA]) -> OrthogonalAnswer:
        """Time and energy of orthogonal access with all workers at Pmax."""
        state = link.upload(
            self.csi, kind(self.scenario).step(self.csi), self.scenario, bits=self.bits
        )
        return OrthogonalAnswer.of(
            kind,
            round_s=float(state.upload.duration_s),
            round_j=float(state.energy_j.sum()),
        )


def _finite(value: float) -> float | None:
    """The value, or None for NaN and infinity."""
    return value if math.isfinite(value) else None
