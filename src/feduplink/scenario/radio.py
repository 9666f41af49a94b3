"""The radio of every worker and of the receiver."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from feduplink.scenario.part import ScenarioPart, float64

if TYPE_CHECKING:
    from torch import Tensor

#: Bits of the checksum that every upload ends with.
CHECKSUM_BITS = 32

# Ten times the power under which a worker counts as silent, 1e-10 W, is the least Pmax.
_PowerDbw = Annotated[float, Field(ge=-90, le=60)]
_Watts = Annotated[float, Field(gt=0, le=1e3)]
_ComputeEnergy = Annotated[float, Field(ge=0, le=1)]
_Bits = Annotated[float, Field(gt=0, le=1024)]


class Radio(ScenarioPart):
    """Powers, bandwidth, noise, coding and what sending costs.

    Powers are given in dBW and noise in dBm/Hz at this border only; the properties give watts and
    linear ratios, which everything else uses.
    """

    per_worker: ClassVar[tuple[str, ...]] = (
        "pmax_dbw",
        "static_power_w",
        "compute_energy_j_per_bit",
        "bits_per_weight",
    )

    pmax_dbw: _PowerDbw | tuple[_PowerDbw, ...] = Field(
        -20.0, description="largest transmit power, dBW; one value or one per worker"
    )
    bandwidth_hz: float = Field(180e3, gt=0, le=1e12, description="bandwidth, Hz")
    noise_dbm_per_hz: float = Field(-174.0, ge=-250, le=0, description="noise density, dBm/Hz")
    noise_figure_db: float = Field(3.0, ge=0, le=60, description="receiver noise figure, dB")
    waterfall: float = Field(0.023, gt=0, le=1e3, description="waterfall threshold m of the PER")
    static_power_w: _Watts | tuple[_Watts, ...] = Field(
        0.01, description="static power P_c, W; one value or one per worker"
    )
    amplifier_inefficiency: float = Field(
        1.0, gt=0, le=1e3, description="amplifier inefficiency mu"
    )
    compute_energy_j_per_bit: _ComputeEnergy | tuple[_ComputeEnergy, ...] = Field(
        0.0,
        description="computation energy c_comp per model bit, J; one value or one per worker",
    )
    bits_per_weight: _Bits | tuple[_Bits, ...] = Field(
        32.0, description="bits that a model's weight is sent with; one value or one per worker"
    )

    @cached_property
    def pmax_w(self) -> Tensor:
        """Largest transmit power, W; () for one value, (L,) for one per worker, float64."""
        if isinstance(self.pmax_dbw, tuple):
            return float64([10 ** (dbw / 10) for dbw in self.pmax_dbw])
        return float64(10 ** (self.pmax_dbw / 10))

    @cached_property
    def static_power(self) -> Tensor:
        """P_c, W; () or (L,), float64."""
        return float64(self.static_power_w)

    @cached_property
    def compute_energy(self) -> Tensor:
        """c_comp, J per bit of the model; () or (L,), float64."""
        return float64(self.compute_energy_j_per_bit)

    def model_bits(self, weights: int | Tensor) -> Tensor:
        """Z, the bits of one upload: so many weights and their checksum; () or (L,), float64.

        ``weights`` is one number, or one per worker, (L,).
        """
        return float64(self.bits_per_weight) * weights + CHECKSUM_BITS

    @property
    def noise_power_w(self) -> float:
        """Receiver noise power σ² over the bandwidth, W."""
        density_dbw = self.noise_dbm_per_hz - 30 + self.noise_figure_db
        return float(self.bandwidth_hz * 10 ** (density_dbw / 10))
