"""Where channels come from: the cell, its geometry and fading, and what is known of them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from feduplink.registry import CHANNEL_MODELS
from feduplink.scenario.part import ScenarioPart

#: A registered name or ``package.module:Object``; only the name is kept.
ChannelModelName = Annotated[str, AfterValidator(CHANNEL_MODELS.check), CHANNEL_MODELS]


class Cell(ScenarioPart):
    """A square cell with its base stations and workers."""

    antennas: int = Field(10, ge=1, le=1024, description="antennas n_R of each base station")
    base_stations: int = Field(1, ge=1, le=64, description="base stations in the cell")
    channel_model: ChannelModelName = Field("wbs", description="what draws the channels")
    cell_side_m: float = Field(1000.0, gt=0, le=1e5, description="side of the square cell, m")
    geometry: Literal["redrawn", "kept"] = Field(
        "redrawn", description="worker positions: new in every realisation, or kept"
    )
    speed_mps: float = Field(0.0, ge=0, le=300, description="worker speed when kept, m/s")
    round_interval_s: float = Field(1.0, gt=0, le=1e6, description="time between rounds, s")
    coherence_time_s: float | None = Field(
        None,
        gt=0,
        le=1e9,
        description="fading coherence time, s; none: from the speed, i.i.d. when that is 0",
    )
    carrier_hz: float = Field(1.9e9, ge=1e8, le=1e11, description="carrier frequency, Hz")
    interference: float = Field(
        1.0, gt=0, le=1e6, description="factor on the off-diagonal of the CSI"
    )
    csi_noise: float = Field(
        0.0, ge=0, le=1e30, description="variance of the Gaussian noise on the CSI a policy sees"
    )

    @model_validator(mode="after")
    def _check_motion(self) -> Self:
        if self.geometry == "redrawn" and (self.speed_mps > 0 or self.coherence_time_s):
            raise ValueError(
                "speed_mps and coherence_time_s describe workers that stay; accepted only with "
                "geometry: kept"
            )
        return self
