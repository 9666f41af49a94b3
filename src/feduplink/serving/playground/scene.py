"""Scenes of the playground: workers at given positions, their setting and their channel."""

from __future__ import annotations

from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from torch import Tensor

from feduplink.channels import (
    RayleighCell,
    base_station_positions,
    distances,
    matched_filter_csi,
    rayleigh,
    scale_interference,
    shadowing_gain,
    worker_positions,
)
from feduplink.errors import InputError
from feduplink.randomness import torch_generator
from feduplink.registry import CHANNEL_MODELS
from feduplink.scenario import Scenario, data_sizes

#: Maximum number of workers; also the number of different worker ids.
MAX_WORKERS = 64
_MAX_SEED = 2**32 - 1

#: Number of weights of the model that is uploaded: the perceptron for MNIST.
MODEL_WEIGHTS = 39_760

#: Ranges of the sliders; a scenario outside widens them.
_PMAX_DBW = (-45.0, 5.0)
_INTERFERENCE = (0.5, 10.0)
_RATE_MIN = (0.0, 2.0)
_EE_MIN = (0.0, 150.0)


def _integral(value: object) -> object:
    """A float without a fraction as an int: JSON has one type of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Integer = Annotated[int, BeforeValidator(_integral)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class SceneWorker(_Request):
    """A worker at a position."""

    id: _Integer = Field(
        ge=0, lt=MAX_WORKERS, description="Id of the worker, which determines its data and fading"
    )
    x_m: _Finite = Field(description="Distance east of the centre of the cell, m")
    y_m: _Finite = Field(description="Distance north of the centre of the cell, m")


class Scene(_Request):
    """Workers, their setting, and the seed of their fading."""

    workers: list[SceneWorker] = Field(min_length=1, max_length=MAX_WORKERS)
    pmax_dbw: _Finite = Field(description="Maximum transmit power, dBW")
    interference: _Finite = Field(description="Factor on the off-diagonal of H")
    rate_min: _Finite = Field(description="Threshold on the mean rate, nats/s/Hz")
    ee_min: _Finite = Field(description="Threshold on the mean energy efficiency, nats/s/Hz/W")
    seed: _Integer = Field(ge=0, le=_MAX_SEED, description="Seed of the fading")

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the workers, in the order of the scene."""
        return tuple(worker.id for worker in self.workers)

    @property
    def repeated_id(self) -> int | None:
        """An id of several workers, if there is one."""
        return next((worker for worker in self.ids if self.ids.count(worker) > 1), None)

    @property
    def positions_m(self) -> Tensor:
        """Positions of the workers, (1, L, 2) m, float64."""
        positions = [(worker.x_m, worker.y_m) for worker in self.workers]
        return torch.tensor([positions], dtype=torch.float64)


class Span(BaseModel):
    """Closed interval of accepted values."""

    least: float
    most: float


class SceneLimits(BaseModel):
    """Accepted values of a scene."""

    workers: int = MAX_WORKERS
    half_side_m: float
    pmax_dbw: Span
    interference: Span
    rate_min: Span
    ee_min: Span

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> SceneLimits:
        """The limits of a scenario's cell, which include the scenario's own values."""

        def span(slider: tuple[float, float], own: float | tuple[float, ...]) -> Span:
            value = _number(own)
            return Span(least=min(slider[0], value), most=max(slider[1], value))

        return cls(
            half_side_m=scenario.cell_side_m / 2,
            pmax_dbw=span(_PMAX_DBW, scenario.pmax_dbw),
            interference=span(_INTERFERENCE, scenario.interference),
            rate_min=span(_RATE_MIN, scenario.rate_min),
            ee_min=span(_EE_MIN, scenario.ee_min),
        )

    def scene_type(self) -> type[Scene]:
        """A model of scenes within the limits, whose JSON schema contains them."""
        half = self.half_side_m
        fields = SceneWorker.model_fields
        worker = create_model(
            "SceneWorker",
            __base__=SceneWorker,
            x_m=(float, Field(ge=-half, le=half, description=fields["x_m"].description)),
            y_m=(float, Field(ge=-half, le=half, description=fields["y_m"].description)),
        )
        workers: Any = GenericAlias(list, (worker,))
        return create_model(
            "Scene",
            __base__=Scene,
            workers=(workers, Scene.model_fields["workers"]),
            pmax_dbw=self._field("pmax_dbw"),
            interference=self._field("interference"),
            rate_min=self._field("rate_min"),
            ee_min=self._field("ee_min"),
        )

    def _field(self, name: str) -> Any:
        """Definition of a field of the scene within its span."""
        span: Span = getattr(self, name)
        description = Scene.model_fields[name].description
        return (float, Field(ge=span.least, le=span.most, description=description))


class Station(BaseModel):
    """A base station at a position."""

    x_m: float
    y_m: float


class FirstScene(BaseModel):
    """The cell, its limits, and a scene to start with."""

    limits: SceneLimits
    stations: list[Station]
    scene: Scene
    model_weights: int = Field(description="Number of weights of the model that is uploaded")

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> FirstScene:
        """The scenario's workers, at most :data:`MAX_WORKERS`, at random positions in its cell."""
        workers = min(scenario.workers, MAX_WORKERS)
        side = scenario.cell_side_m
        positions = worker_positions(1, workers, side, torch_generator(0, "cell"))[0].round()
        stations = base_station_positions(scenario.base_stations, side)
        return cls(
            limits=SceneLimits.from_scenario(scenario),
            stations=[Station(x_m=x, y_m=y) for x, y in stations.tolist()],
            scene=Scene(
                workers=[
                    SceneWorker(id=number, x_m=x, y_m=y)
                    for number, (x, y) in enumerate(positions.tolist())
                ],
                pmax_dbw=_number(scenario.pmax_dbw),
                interference=scenario.interference,
                rate_min=_number(scenario.rate_min),
                ee_min=_number(scenario.ee_min),
                seed=0,
            ),
            model_weights=MODEL_WEIGHTS,
        )


@dataclass(frozen=True)
class Setting:
    """What the multipliers depend on: a scene without positions and fading.

    Attributes:
        ids: ids of the workers, (L,).
        pmax_dbw: maximum transmit power, dBW.
        interference: factor on the off-diagonal of H.
        rate_min: threshold on the mean rate, nats/s/Hz.
        ee_min: threshold on the mean energy efficiency, nats/s/Hz/W.
    """

    ids: tuple[int, ...]
    pmax_dbw: float
    interference: float
    rate_min: float
    ee_min: float

    @classmethod
    def from_scene(cls, scene: Scene) -> Setting:
        """The setting of a scene."""
        return cls(scene.ids, scene.pmax_dbw, scene.interference, scene.rate_min, scene.ee_min)

    def scenario(self, base: Scenario) -> Scenario:
        """``base`` with this setting; a worker's share of the data depends on its id."""
        weights: object = base.weights
        if weights == "data" and self.ids != tuple(range(len(self.ids))):
            sizes = data_sizes(MAX_WORKERS)[list(self.ids)]
            weights = tuple((sizes / sizes.sum()).tolist())
        return base.replace(
            workers=len(self.ids),
            pmax_dbw=self.pmax_dbw,
            interference=self.interference,
            rate_min=self.rate_min,
            ee_min=self.ee_min,
            weights=weights,
        )


class SceneChannel:
    """Computes H of scenes with the path loss of a scenario's channel model.

    Fading and shadowing of a worker depend on the seed and its id only: if a worker is moved,
    added or removed, those of the others stay the same.
    """

    def __init__(self, scenario: Scenario) -> None:
        model = CHANNEL_MODELS.find(scenario.channel_model)(scenario)
        if not isinstance(model, RayleighCell):
            raise InputError(
                "channel_model must derive from RayleighCell in the playground, which needs a path "
                f"loss for given positions; got {scenario.channel_model}."
            )
        self._model = model
        self._scenario = scenario
        self._stations = base_station_positions(scenario.base_stations, scenario.cell_side_m)

    def distances_m(self, scene: Scene) -> Tensor:
        """Distances of the workers to the base stations, (L, K) m."""
        return distances(scene.positions_m, self._stations)[0]

    def csi(self, scene: Scene) -> Tensor:
        """H of the scene, with its interference factor, (L, L) float64, 1/W."""
        fading, shadowing = self._fading(scene)
        gain = self._model.path_gain(self.distances_m(scene)[None]) * shadowing
        csi = matched_filter_csi(fading, gain, gain.argmax(-1), self._scenario.noise_power_w)
        return scale_interference(csi[0], scene.interference)

    def _fading(self, scene: Scene) -> tuple[Tensor, Tensor]:
        """Unit-power coefficients (1, L, K, n_R, 2) and shadowing gains (1, L, K), float64."""
        links = (self._scenario.base_stations, self._scenario.antennas)
        coefficients, shadowing = [], []
        for worker in scene.ids:
            generator = torch_generator(scene.seed, "scene", worker)
            coefficients.append(rayleigh(links, generator))
            shadowing.append(shadowing_gain(links[:1], self._model.shadowing_std_db, generator))
        return torch.stack(coefficients)[None].double(), torch.stack(shadowing)[None].double()


def check_playable(scenario: Scenario) -> None:
    """Refuse a scenario whose workers cannot be added and removed, by an :class:`InputError`."""
    for name in sorted({*scenario.per_worker, *_listed_fields(type(scenario))}):
        if isinstance(getattr(scenario, name), tuple):
            raise InputError(
                f"{name} must be one value for all workers in the playground, where workers are "
                "added and removed."
            )
    if scenario.csi_noise > 0:
        raise InputError(
            f"csi_noise must be 0 in the playground, where policies know the channel; got "
            f"{scenario.csi_noise:g}."
        )
    if scenario.constraints:
        raise InputError(
            "constraints must be empty in the playground, which has rate_min and ee_min only; got "
            f"{scenario.constraints[0]}."
        )


def _listed_fields(model: type[Scenario]) -> list[str]:
    return [name for part in model.__mro__ for name in vars(part).get("per_worker", ())]


def _number(value: float | tuple[float, ...]) -> float:
    assert isinstance(value, int | float)  # check_playable refuses lists
    return float(value)
