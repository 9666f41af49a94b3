"""A scene: workers at places in the cell, the fading they see, and the setting they are in."""

from __future__ import annotations

from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from torch import Tensor

from feduplink.channels.propagation import base_station_positions, worker_positions
from feduplink.errors import InputError
from feduplink.randomness import torch_generator
from feduplink.scenario import Scenario, data_sizes

#: Workers of a scene have different numbers under this one.
MOST_WORKERS = 64
_LARGEST_SEED = 2**32 - 1

#: Weights of the model that the workers upload: the one that learns MNIST's digits here.
MODEL_WEIGHTS = 39_760

#: What the sliders reach; a scenario beyond them widens them.
_PMAX_DBW = (-45.0, 5.0)
_INTERFERENCE = (0.5, 10.0)
_RATE_MIN = (0.0, 2.0)
_EE_MIN = (0.0, 150.0)


def _whole(value: object) -> object:
    """In JSON 40.0 is an integer, too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Integer = Annotated[int, BeforeValidator(_whole)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class SceneWorker(_Strict):
    """A worker at a place."""

    id: _Integer = Field(
        ge=0, lt=MOST_WORKERS, description="number; says which data and fading it has"
    )
    x_m: _Finite = Field(description="metres east of the centre of the cell")
    y_m: _Finite = Field(description="metres north of it")


class Scene(_Strict):
    """What ``POST /v1/scene`` is asked about."""

    workers: list[SceneWorker] = Field(min_length=1, max_length=MOST_WORKERS)
    pmax_dbw: _Finite = Field(description="largest transmit power, dBW")
    interference: _Finite = Field(description="factor on the off-diagonal of H")
    rate_min: _Finite = Field(description="threshold on the mean rate, nats/s/Hz")
    ee_min: _Finite = Field(description="threshold on the mean energy efficiency, nats/s/Hz/W")
    seed: _Integer = Field(ge=0, le=_LARGEST_SEED, description="of the fading")

    @property
    def ids(self) -> tuple[int, ...]:
        """The workers' numbers, in the order in which they are given."""
        return tuple(worker.id for worker in self.workers)

    @property
    def repeated(self) -> int | None:
        """A number that more than one worker has, if there is one."""
        return next((worker for worker in self.ids if self.ids.count(worker) > 1), None)

    @property
    def positions_m(self) -> Tensor:
        """(1, L, 2) m, float64."""
        places = [(worker.x_m, worker.y_m) for worker in self.workers]
        return torch.tensor([places], dtype=torch.float64)


class Span(BaseModel):
    """From the least to the largest value that is accepted."""

    least: float
    most: float


class SceneLimits(BaseModel):
    """What a scene may be."""

    workers: int = MOST_WORKERS
    half_side_m: float
    pmax_dbw: Span
    interference: Span
    rate_min: Span
    ee_min: Span

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> SceneLimits:
        """Those of a scenario's cell, in which its own values are accepted."""

        def span(reach: tuple[float, float], own: float | tuple[float, ...]) -> Span:
            value = _number(own)
            return Span(least=min(reach[0], value), most=max(reach[1], value))

        return cls(
            half_side_m=scenario.cell_side_m / 2,
            pmax_dbw=span(_PMAX_DBW, scenario.pmax_dbw),
            interference=span(_INTERFERENCE, scenario.interference),
            rate_min=span(_RATE_MIN, scenario.rate_min),
            ee_min=span(_EE_MIN, scenario.ee_min),
        )

    def scene_type(self) -> type[Scene]:
        """Scenes that keep to the limits; a schema of them says what is accepted."""
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
        """The definition of a number of the scene within its span."""
        span: Span = getattr(self, name)
        description = Scene.model_fields[name].description
        return (float, Field(ge=span.least, le=span.most, description=description))


class Station(BaseModel):
    """A base station at a place."""

    x_m: float
    y_m: float


class FirstScene(BaseModel):
    """What ``GET /v1/cell`` answers: the cell, what is accepted, and a scene to begin with."""

    limits: SceneLimits
    stations: list[Station]
    scene: Scene
    model_weights: int = Field(description="of the model that is uploaded")

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> FirstScene:
        """The scenario's workers, at most :data:`MOST_WORKERS`, at random places in its cell."""
        workers = min(scenario.workers, MOST_WORKERS)
        side = scenario.cell_side_m
        places = worker_positions(1, workers, side, torch_generator(0, "cell"))[0].round()
        stations = base_station_positions(scenario.base_stations, side)
        return cls(
            limits=SceneLimits.from_scenario(scenario),
            stations=[Station(x_m=x, y_m=y) for x, y in stations.tolist()],
            scene=Scene(
                workers=[
                    SceneWorker(id=number, x_m=x, y_m=y)
                    for number, (x, y) in enumerate(places.tolist())
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
    """What multipliers depend on: all of a scene but places and fading.

    Attributes:
        ids: the workers' numbers, (L,).
        pmax_dbw, interference, rate_min, ee_min: as in the scene.

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
        """``base`` with this setting; who stays keeps its data when others come and go."""
        weights: object = base.weights
        if weights == "data" and self.ids != tuple(range(len(self.ids))):
            sizes = data_sizes(MOST_WORKERS)[list(self.ids)]
            weights = tuple((sizes / sizes.sum()).tolist())
        return base.replace(
            workers=len(self.ids),
            pmax_dbw=self.pmax_dbw,
            interference=self.interference,
            rate_min=self.rate_min,
            ee_min=self.ee_min,
            weights=weights,
        )


def check_playable(scenario: Scenario) -> Scenario:
    """Return a scenario in which workers may come and go; an :class:`InputError` otherwise."""
    for name in sorted({*scenario.per_worker, *_listed_fields(type(scenario))}):
        if isinstance(getattr(scenario, name), tuple):
            raise InputError(
                f"{name}: one value per worker; accepted in the playground, where workers come "
                "and go: one value for all."
            )
    if scenario.csi_noise > 0:
        raise InputError(
            f"csi_noise: {scenario.csi_noise:g}; accepted in the playground: 0, policies see the "
            "channel that is shown."
        )
    if scenario.constraints:
        raise InputError(
            f"constraints: {scenario.constraints[0]}; accepted in the playground: rate_min and "
            "ee_min alone."
        )
    return scenario


def _listed_fields(model: type[Scenario]) -> list[str]:
    return [name for part in model.__mro__ for name in vars(part).get("per_worker", ())]


def _number(value: float | tuple[float, ...]) -> float:
    assert isinstance(value, int | float)  # check_playable has seen to it
    return float(value)
