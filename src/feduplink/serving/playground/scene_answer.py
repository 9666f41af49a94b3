"""What every policy makes of a scene: powers, what they bring, and what the round takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from feduplink import link
from feduplink.errors import InputError
from feduplink.federated.uplink.access import OFDMA, TDMA, OrthogonalAccess
from feduplink.lagrangian import ChannelBatch, DualPoint, Prices, improve, starting_points
from feduplink.policies import (
    DualPolicy,
    FullPower,
    OpenLoop,
    Orthogonal,
    Policy,
    UnrolledNetwork,
    UnrolledPolicy,
)
from feduplink.problem import Problem
from feduplink.scenario import Scenario
from feduplink.serving.playground.scene import MODEL_WEIGHTS, Scene, Setting
from feduplink.serving.playground.scene_channel import SceneChannel
from feduplink.serving.playground.scene_schedule import ScheduleAnswer
from feduplink.serving.playground.tuned_settings import Known

#: Sweeps with Newton steps from every starting point; with so many starts more find nothing.
_ROUNDS = 2
#: Of a policy that has no colour of its own.
_PLAIN = "#6060F0"


class WorkerAnswer(BaseModel):
    """A worker of the scene."""

    id: int
    weight: float = Field(description="in the objective")
    distance_m: float = Field(description="to the nearest base station")
    snr_db: float = Field(description="alone on the air at Pmax")


class PolicyAnswer(BaseModel):
    """What a policy makes of the scene; lists have one entry per worker, in the scene's order."""

    name: str
    colour: str
    power_w: list[float]
    sinr: list[float]
    success: list[float] = Field(description="packet success rate, all senders on the air")
    rate: list[float] = Field(description="nats/s/Hz, all senders on the air")
    efficiency: list[float] = Field(description="nats/s/Hz/W")
    airtime_s: list[float] = Field(description="until the last bit; who has finished leaves")
    energy_j: list[float]
    silent: list[int] = Field(description="numbers of the workers with power 0")
    objective: float | None = Field(description="utility on this channel; none if minus infinity")
    distance: float = Field(description="of its Lagrangian to the largest one on this channel")
    round_s: float
    round_j: float


class AbsentPolicy(BaseModel):
    """A policy that has no powers for the scene."""

    name: str
    colour: str
    why: str


class OrthogonalAnswer(BaseModel):
    """What the round takes where nobody disturbs anybody."""

    name: str
    colour: str
    round_s: float
    round_j: float


class MultipliersAnswer(BaseModel):
    """Whose multipliers the answer was computed with."""

    own: bool = Field(description="whether they were found for the scene's own setting")
    searching: bool = Field(description="whether those of the scene's setting are being found")
    failure: str | None = Field(description="why they cannot be found")
    workers: int
    pmax_dbw: float
    interference: float
    rate_min: float
    ee_min: float
    channels: int = Field(description="on which they were found")
    shortfall: float | None = Field(
        description="share by which pdx misses the threshold it misses most, mean of other channels"
    )
    shortfall_error: float | None = Field(description="half the width of its interval")

    @classmethod
    def from_known(cls, known: Known, setting: Setting) -> Self:
        """Of the setting that they were found for."""
        found = known.tuned.setting
        return cls(
            own=found == setting,
            searching=known.searching,
            failure=known.failure,
            workers=len(found.ids),
            pmax_dbw=found.pmax_dbw,
            interference=found.interference,
            rate_min=found.rate_min,
            ee_min=found.ee_min,
            channels=known.tuned.channels,
            shortfall=_finite(known.tuned.shortfall),
            shortfall_error=_finite(known.tuned.shortfall_error),
        )


class SceneAnswer(BaseModel):
    """The answer of ``POST /v1/scene``."""

    workers: list[WorkerAnswer]
    policies: list[PolicyAnswer]
    absent: list[AbsentPolicy]
    orthogonal: list[OrthogonalAnswer]
    schedule: ScheduleAnswer
    optimum: float = Field(description="the largest Lagrangian of this channel")
    multipliers: MultipliersAnswer


class SceneEvaluation:
    """A scene with its channel and its problem.

    Args:
        scene: checked.
        base: the scenario of the cell.
        channel: computes H.
        known: what is known of the scene's setting.

    """

    def __init__(self, scene: Scene, base: Scenario, channel: SceneChannel, known: Known) -> None:
        setting = Setting.from_scene(scene)
        self.scene, self.known, self.setting = scene, known, setting
        self.scenario = setting.scenario(base)
        self.problem = Problem.from_scenario(self.scenario)
        self.distances_m = channel.distances_m(scene)
        self.csi = channel.csi(scene)
        self.point: DualPoint = known.tuned.point_for(setting, self.scenario)
        self.prices: Prices = self.point.prices(self.problem, self.scenario)
        self.batch = ChannelBatch.from_scenario(self.scenario, self.csi[None])
        self.bits = self.scenario.model_bits(MODEL_WEIGHTS)

    def answer(self, network: UnrolledNetwork, trained: Sequence[Policy]) -> SceneAnswer:
        """Every policy's row; that of the search, ``dual``, has the largest Lagrangian."""
        scenario = self.scenario
        policies: list[Policy] = [FullPower(scenario), Orthogonal(scenario)]
        absent = []
        if (setting := self.known.tuned.open_loop) is not None:
            policies.insert(1, OpenLoop(scenario, target=setting[0], fraction=setting[1]))
        else:
            absent.append(_absent(OpenLoop, "It is being tuned for this cell."))
        rows = [(type(policy), policy.allocate(self.csi)) for policy in policies]
        for policy in trained:
            try:
                # One that was trained for another Pmax keeps to this one.
                power = torch.minimum(policy.allocate(self.csi), scenario.pmax_w)
                rows.append((type(policy), power.double()))
            except InputError as error:
                absent.append(_absent(type(policy), str(error)))
        pdx = UnrolledPolicy(scenario, network, self.point)
        rows.append((UnrolledPolicy, pdx.allocate(self.csi)))
        rows.append((DualPolicy, self._best([power for _, power in rows])))
        powers = torch.stack([power for _, power in rows])
        values = self._lagrangian(powers)
        return SceneAnswer(
            workers=self._workers(),
            policies=self._rows([kind for kind, _ in rows], powers, values.max() - values),
            absent=absent,
            orthogonal=[self._orthogonal(scheme) for scheme in (TDMA, OFDMA)],
            schedule=ScheduleAnswer.from_channel(self.csi, scenario, self.bits),
            optimum=float(values.max()),
            multipliers=MultipliersAnswer.from_known(self.known, self.setting),
        )

    def _lagrangian(self, power: Tensor) -> Tensor:
        """Of powers (N, L), each on this channel, (N,)."""
        return self._repeated(len(power)).value(power, self.prices)

    def _repeated(self, count: int) -> ChannelBatch:
        return self.batch.take(torch.zeros(count, dtype=torch.long))

    def _best(self, others: Sequence[Tensor]) -> Tensor:
        """Powers with the largest Lagrangian that a search finds, (L,) W.

        From the usual starting points and from the powers of all other policies, all at once as
        if they were as many channels; the Lagrangian never falls on the way, so none is above it.
        """
        starts = torch.cat((*starting_points(self.batch, self.prices), torch.stack([*others])))
        batch = self._repeated(len(starts))
        power = improve(batch, self.prices, starts, rounds=_ROUNDS)
        return power[batch.value(power, self.prices).argmax()]

    def _workers(self) -> list[WorkerAnswer]:
        snr = self.csi.diagonal() * self.scenario.pmax_w
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
        self, kinds: Sequence[type[Policy]], powers: Tensor, distances: Tensor
    ) -> list[PolicyAnswer]:
        """Of P policies with powers (P, L) W and distances (P,) to the largest Lagrangian."""
        scenario = self.scenario
        csi = self.csi.expand(len(powers), -1, -1)
        sinr = link.sinr(csi, powers)
        rate = link.rate(sinr)
        efficiency = link.energy_efficiency(
            rate, powers, scenario.static_power, scenario.amplifier_inefficiency
        )
        upload = link.simultaneous_upload(csi, powers, self.bits, scenario.bandwidth_hz)
        energy_j = self._energy_j(upload)
        objectives = self.problem.utility.value(self.problem.objective.value(sinr, powers))
        per_worker = {
            "power_w": powers.tolist(),
            "sinr": sinr.tolist(),
            "success": link.packet_success_rate(sinr, scenario.waterfall).tolist(),
            "rate": rate.tolist(),
            "efficiency": efficiency.tolist(),
            "airtime_s": upload.airtime_s.tolist(),
            "energy_j": energy_j.tolist(),
        }
        per_policy = {
            "distance": distances.tolist(),
            "round_s": upload.duration_s.tolist(),
            "round_j": energy_j.sum(-1).tolist(),
        }
        return [
            PolicyAnswer(
                name=kind.name,
                colour=kind.colour or _PLAIN,
                silent=[
                    worker
                    for worker, watts in zip(self.scene.ids, power, strict=True)
                    if watts == 0
                ],
                objective=_finite(objective),
                **{name: rows[i] for name, rows in (per_worker | per_policy).items()},
            )
            for i, (kind, power, objective) in enumerate(
                zip(kinds, per_worker["power_w"], objectives.tolist(), strict=True)
            )
        ]

    def _orthogonal(self, scheme: type[OrthogonalAccess]) -> OrthogonalAnswer:
        """Everybody alone at Pmax."""
        scenario = self.scenario
        share = link.tdma if scheme is TDMA else link.ofdma
        everyone = torch.ones(scenario.workers, dtype=torch.bool)
        upload = share(
            self.csi,
            everyone,
            self.bits,
            scenario.bandwidth_hz,
            scenario.pmax_w,
            scenario.static_power,
        )
        return OrthogonalAnswer(
            name=scheme.name,
            colour=scheme.colour or _PLAIN,
            round_s=float(upload.duration_s),
            round_j=float(self._energy_j(upload).sum()),
        )

    def _energy_j(self, upload: link.Upload) -> Tensor:
        """Of every worker, (L,) J."""
        return link.energy(
            upload.power,
            upload.airtime_s,
            self.bits,
            self.scenario.static_power,
            self.scenario.compute_energy,
        )


def _absent(kind: type[Policy], why: str) -> AbsentPolicy:
    return AbsentPolicy(name=kind.name, colour=kind.colour or _PLAIN, why=why)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
