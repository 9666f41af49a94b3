"""Drawing channels of a scenario: geometry, path loss, fading and CSI put together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from feduplink.channels import fading, geometry, pathloss
from feduplink.channels.csi import matched_filter_csi, scale_interference
from feduplink.errors import InputError
from feduplink.scenario import Scenario

#: Realisations computed at once: small enough to stay in the processor's cache.
_CHUNK = 2048


@dataclass(frozen=True, repr=False)
class Channels:
    """A draw of channels.

    Attributes:
        csi: H, (N, L, L) float32, linear, noise power one.
        antenna: the channels behind it, (N, L, K, n_R) complex64, amplitude gain; None unless
            asked for.

    """

    csi: Tensor
    antenna: Tensor | None = None

    def __repr__(self) -> str:
        """How many, and what is known of them."""
        count, workers, _ = self.csi.shape
        antennas = ""
        if self.antenna is not None:
            antennas = f", coefficients of {self.antenna.shape[-1]} antennas"
        return f"Channels({count} of {workers} workers{antennas})"


def draw_csi(
    scenario: Scenario,
    count: int,
    generator: torch.Generator,
    *,
    cell: torch.Generator | None = None,
) -> Tensor:
    """H of ``count`` realisations, (count, L, L) float32.

    With ``geometry: redrawn`` they are independent; with ``geometry: kept`` they are the
    successive rounds of one run, with workers that move and fading that is correlated as the
    scenario says. Where kept workers start, and behind which obstacles, is drawn from ``cell``, if
    given: draws from the same cell differ in the fading alone.
    """
    return draw_channels(scenario, count, generator, cell=cell, keep_antenna=False).csi


def draw_channels(
    scenario: Scenario,
    count: int,
    generator: torch.Generator,
    *,
    cell: torch.Generator | None = None,
    keep_antenna: bool = True,
) -> Channels:
    """As :func:`draw_csi`, and on request the antenna coefficients."""
    if count < 1:
        raise InputError(f"count: {count}; accepted: 1 or more channels.")
    if scenario.geometry == "kept":
        return _realise(scenario, count, generator, keep_antenna, cell)
    chunks = [
        _realise(scenario, min(_CHUNK, count - start), generator, keep_antenna)
        for start in range(0, count, _CHUNK)
    ]
    antennas = [chunk.antenna for chunk in chunks if chunk.antenna is not None]
    return Channels(
        csi=torch.cat([chunk.csi for chunk in chunks]),
        antenna=torch.cat(antennas) if antennas else None,
    )


def _realise(
    scenario: Scenario,
    count: int,
    generator: torch.Generator,
    keep_antenna: bool,
    cell: torch.Generator | None = None,
) -> Channels:
    gain = _mean_gain(scenario, count, cell or generator)
    coefficients = fading.rayleigh(
        (count, scenario.workers, scenario.base_stations, scenario.antennas), generator
    )
    if (rho := _fading_correlation(scenario)) > 0:
        coefficients = fading.gauss_markov(coefficients, rho)
    csi = matched_filter_csi(coefficients, gain, gain.argmax(dim=-1), scenario.noise_power_w)
    antenna = None
    if keep_antenna:
        antenna = torch.view_as_complex(coefficients) * gain.sqrt()[..., None]
    return Channels(scale_interference(csi, scenario.interference), antenna)


def _mean_gain(scenario: Scenario, count: int, generator: torch.Generator) -> Tensor:
    """Path gain with shadowing of every worker to every station, (count or 1, L, K)."""
    side = scenario.cell_side_m
    stations = geometry.base_station_positions(scenario.base_stations, side)
    if scenario.geometry == "redrawn":
        workers = geometry.worker_positions(count, scenario.workers, side, generator)
    else:
        workers = geometry.worker_positions(1, scenario.workers, side, generator)
        if scenario.speed_mps > 0:
            step_m = scenario.speed_mps * scenario.round_interval_s
            workers = geometry.walk(workers[0], count, step_m, side, generator)
    distance_m = geometry.distances(workers, stations)
    if scenario.channel_model == "wbs":
        return pathloss.wideband_spatial_gain(distance_m)
    gain = pathloss.hata_cost231_gain(
        distance_m,
        urban="urban" in scenario.channel_model.split("-"),
        carrier_hz=scenario.carrier_hz,
    )
    if scenario.channel_model.endswith("-shadowed"):
        # Kept workers keep their obstacles: one shadowing value a link for the whole run.
        links = distance_m if scenario.geometry == "redrawn" else distance_m[:1]
        gain = gain * pathloss.shadowing_gain(tuple(links.shape), generator)
    return gain


def _fading_correlation(scenario: Scenario) -> float:
    """ρ between successive rounds; 0 for independent fading."""
    if scenario.coherence_time_s is not None:
        return fading.correlation(scenario.round_interval_s, scenario.coherence_time_s)
    if scenario.speed_mps > 0:
        coherence_s = fading.coherence_time(scenario.speed_mps, scenario.carrier_hz)
        return fading.correlation(scenario.round_interval_s, coherence_s)
    return 0.0
