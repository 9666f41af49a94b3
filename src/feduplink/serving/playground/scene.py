"""Scenes of the playground: workers at given positions, their setting and their channel."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import BaseModel, Field
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
from feduplink.serving.payloads import MAX_GAIN, Matrix, StrictRequest

#: Maximum number of workers; also the number of different worker ids.
MAX_WORKERS = 64
_MAX_SEED = 2**32 - 1

#: Number of weights of the model that is uploaded: the perceptron for MNIST.
MODEL_WEIGHTS = 39_760

#: Ranges of the sliders; a scenario outside widens them.
_SLIDERS = {
    "pmax_dbw": (-45.0, 5.0),
    "interference": (0.5, 10.0),
    "rate_min": (0.0, 2.0),
    "ee_min": (0.0, 150.0),
}


#: Default price of energy of the schedule, s/J, and the range of its slider.
KAPPA, _KAPPA_SPAN = 10.0, (0.0, 100.0)


class SceneWorker(StrictRequest):
    """A worker at a position."""

    id: int = Field(
        ge=0,
        lt=MAX_WORKERS,
        strict=False,  # JSON does not distinguish 5.0 from 5
        description="Id of the worker, which determines its data and fading",
    )
    x_m: float = Field(description="Distance east of the centre of the cell, m")
    y_m: float = Field(description="Distance north of the centre of the cell, m")


class RadioSetting(StrictRequest):
    """The fields of a scenario that have a slider."""

    pmax_dbw: float = Field(description="Maximum transmit power, dBW")
    interference: float = Field(description="Factor on the off-diagonal of H")
    rate_min: float = Field(description="Threshold on the mean rate, nats/s/Hz")
    ee_min: float = Field(description="Threshold on the mean energy efficiency, nats/s/Hz/W")

    @property
    def radio(self) -> dict[str, float]:
        """Values of the sliders by name."""
        return {name: getattr(self, name) for name in _SLIDERS}


class Scene(RadioSetting):
    """Workers, their setting, and the seed of their fading."""

    workers: list[SceneWorker] = Field(min_length=1, max_length=MAX_WORKERS)
    seed: int = Field(ge=0, le=_MAX_SEED, strict=False, description="Seed of the fading")
    kappa: float = Field(default=KAPPA, description="Price of energy of the schedule, s/J")
    csi: Matrix | None = Field(
        default=None,
        description="H (L, L) in 1/W instead of that of the positions, H[i][j] from worker j to "
        "the receive filter of worker i",
    )

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the workers, in the order of the scene."""
        return tuple(worker.id for worker in self.workers)

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
    kappa: Span = Span(least=_KAPPA_SPAN[0], most=_KAPPA_SPAN[1])

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> SceneLimits:
        """The limits of a scenario's cell, which include the scenario's own values."""
        spans: dict[str, Any] = {}
        for name, (least, most) in _SLIDERS.items():
            own = _number(getattr(scenario, name))
            spans[name] = Span(least=min(least, own), most=max(most, own))
        return cls(half_side_m=scenario.cell_side_m / 2, **spans)

    def problem(self, scene: Scene) -> str | None:
        """Why a scene is refused, in one sentence; None if it is within the limits."""
        workers, ids = len(scene.ids), len(set(scene.ids))
        if ids < workers:
            return f"workers must have different ids; got {workers} workers with {ids} ids."
        half = Span(least=-self.half_side_m, most=self.half_side_m)
        values = [(name, value, getattr(self, name)) for name, value in scene.radio.items()]
        values.append(("kappa", scene.kappa, self.kappa))
        for worker in scene.workers:
            values += [("x_m", worker.x_m, half), ("y_m", worker.y_m, half)]
        for name, value, span in values:
            if not span.least <= value <= span.most:
                return f"{name} must be {span.least:g} to {span.most:g}; got {value:g}."
        return None if scene.csi is None else _csi_problem(scene.csi, workers, scene.interference)


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
    bandwidth_hz: float = Field(description="Bandwidth B, which converts nats/s/Hz/W to Mbit/J")

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> FirstScene:
        """The scenario's workers, at most :data:`MAX_WORKERS`, at random positions in its cell."""
        workers = min(scenario.workers, MAX_WORKERS)
        side = scenario.cell_side_m
        own: dict[str, Any] = {name: _number(getattr(scenario, name)) for name in _SLIDERS}
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
                seed=0,
                **own,
            ),
            model_weights=MODEL_WEIGHTS,
            bandwidth_hz=scenario.bandwidth_hz,
        )


class Setting(RadioSetting):
    """Setting that determines the multipliers: a scene without positions and fading."""

    ids: tuple[int, ...] = Field(description="Ids of the workers")

    @classmethod
    def from_scene(cls, scene: Scene) -> Setting:
        """Setting of a scene."""
        return cls(ids=scene.ids, **scene.radio)

    def scenario(self, base: Scenario) -> Scenario:
        """``base`` with this setting; the data size of a worker depends on its id."""
        weights: object = base.weights
        if weights == "data" and self.ids != tuple(range(len(self.ids))):
            sizes = data_sizes(MAX_WORKERS)[list(self.ids)]
            weights = tuple((sizes / sizes.sum()).tolist())
        return base.replace(workers=len(self.ids), weights=weights, **self.radio)


class SceneChannel:
    """Computes H of scenes with the path loss of a scenario's channel model.

    Fading and shadowing of a worker depend on the seed and its id only: they do not change if other
    workers are moved, added or removed.

    Args:
        scenario: the cell and its channel model, derived from ``RayleighCell``.

    Raises:
        InputError: if the channel model has no path loss for given positions.
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
        """Distances from workers to base stations, (L, K), m."""
        return distances(scene.positions_m, self._stations)[0]

    def csi(self, scene: Scene) -> Tensor:
        """H of the scene including the interference factor, (L, L) float64, in 1/W."""
        if scene.csi is not None:
            own = torch.tensor(scene.csi, dtype=torch.float64)
            return scale_interference(own, scene.interference)
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


def _csi_problem(csi: list[list[float]], workers: int, interference: float) -> str | None:
    """Why a matrix of a scene is refused, in one sentence; None if it is not."""
    columns = sorted({len(row) for row in csi})
    if [len(csi)] != columns or len(csi) != workers:
        lengths = " or ".join(map(str, columns))
        return (
            f"csi must have a row and a column for each of the {workers} workers; got {len(csi)} "
            f"rows of {lengths} numbers."
        )
    largest = interference * max(map(max, csi))
    if largest > MAX_GAIN:
        return f"csi times interference must be at most {MAX_GAIN:g}; got {largest:g}."
    return None


def check_playable(scenario: Scenario) -> None:
    """Raise :class:`InputError` for a scenario that the playground does not support.

    Args:
        scenario: cell, radio and initial setting.
    """
    for name, value in scenario:
        if isinstance(value, tuple) and name != "constraints":
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


def _number(value: float | tuple[float, ...]) -> float:
    """The common value of all workers."""
    assert isinstance(value, int | float)  # check_playable rejects values per worker
    return float(value)
