"""Drawing channels of a scenario, by whichever model it names."""

from __future__ import annotations

import torch
from torch import Tensor

from feduplink.channels.channel_model import AntennaChannelModel, ChannelModel, Channels
from feduplink.channels.csi import check_antenna, check_csi, scale_interference
from feduplink.errors import InputError
from feduplink.registry import CHANNEL_MODELS
from feduplink.scenario import Scenario


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
    """As :func:`draw_csi`, with the antenna coefficients unless they are not to be kept."""
    if count < 1:
        raise InputError(f"count: {count}; accepted: 1 or more channels.")
    model = _model(scenario)
    # Where nothing is kept there is no cell to share, and a model need not take one.
    shared = {"cell": cell} if cell is not None and scenario.geometry == "kept" else {}
    if not keep_antenna:
        drawn = Channels(model.draw(count, generator, **shared))
    elif isinstance(model, AntennaChannelModel):
        drawn = model.draw_with_antennas(count, generator, **shared)
    else:
        raise InputError(
            f"channel_model: {scenario.channel_model} draws no antenna coefficients; accepted: the "
            "CSI alone, or a model with draw_with_antennas."
        )
    csi, antenna = _checked(drawn, scenario, count)
    return Channels(scale_interference(csi, scenario.interference), antenna)


def _model(scenario: Scenario) -> ChannelModel:
    """The scenario's channel model, built for it."""
    found = CHANNEL_MODELS.find(scenario.channel_model)
    if not callable(found) or (isinstance(found, type) and not hasattr(found, "draw")):
        raise InputError(
            f"channel_model: {scenario.channel_model} is no channel model; accepted: a class that "
            "is built for a scenario and has draw(count, generator)."
        )
    return found(scenario)


def _checked(drawn: Channels, scenario: Scenario, count: int) -> tuple[Tensor, Tensor | None]:
    """H in float32 and the coefficients of a draw, if they are of ``count`` channels."""
    csi, expected = drawn.csi, (count, scenario.workers, scenario.workers)
    shape = tuple(csi.shape) if isinstance(csi, Tensor) else type(csi).__name__
    try:
        if shape != expected:
            raise InputError(f"csi: {shape} was drawn; accepted here: a tensor {expected}.")
        csi = check_csi(csi.to(torch.float32) if csi.is_floating_point() else csi)
        return csi, None if drawn.antenna is None else check_antenna(drawn.antenna, csi)
    except InputError as error:
        raise InputError(f"channel_model: {scenario.channel_model}: {error}") from None
