"""The channel of a scene: geometry, path loss, and fading that belongs to each worker."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.channels import RayleighCell, scale_interference
from feduplink.channels.csi import matched_filter_csi
from feduplink.channels.propagation import (
    base_station_positions,
    distances,
    rayleigh,
    shadowing_gain,
)
from feduplink.errors import InputError
from feduplink.randomness import torch_generator
from feduplink.registry import CHANNEL_MODELS
from feduplink.scenario import Scenario
from feduplink.serving.playground.scene import Scene


class SceneChannel:
    """Computes H for workers at given places, by the path loss of a scenario's channel model.

    The fading of a worker, and its shadowing where the model has one, come from the seed and the
    worker's number alone: who moves, comes or goes changes nothing in the others' fading.
    """

    def __init__(self, scenario: Scenario) -> None:
        made_by = CHANNEL_MODELS.find(scenario.channel_model)
        model = made_by(scenario)
        if not isinstance(model, RayleighCell):
            raise InputError(
                f"channel_model: {scenario.channel_model} has no path loss for workers at given "
                "places; accepted in the playground: models that derive from RayleighCell."
            )
        self._model = model
        self._scenario = scenario
        self._stations = base_station_positions(scenario.base_stations, scenario.cell_side_m)

    def distances_m(self, scene: Scene) -> Tensor:
        """Of every worker to every base station, (L, K) m."""
        return distances(scene.positions_m, self._stations)[0]

    def csi(self, scene: Scene) -> Tensor:
        """H of the scene, (L, L) float64, with the scene's interference."""
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
