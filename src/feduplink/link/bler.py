"""Success of transport blocks from the block error rates that Sionna simulated for 5G NR.

``tb-success`` is a measure beside the exponential waterfall of ``psr``: the share of transport
blocks that arrive at the first attempt, for one modulation and coding scheme (MCS) of the uplink.
Another MCS is a subclass, named as ``package.module:Class``:

    class Mcs10(TransportBlockSuccess):
        name = "tb-success-mcs10"
        mcs = 10

Sionna is imported when a curve is asked for, not before.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from scipy.interpolate import PchipInterpolator
from torch import Tensor

from feduplink.errors import InputError
from feduplink.link.measures import Slopes, SuccessRate

if TYPE_CHECKING:
    from feduplink.scenario import Scenario

#: Bandwidth of a resource block, 12 subcarriers of 15 kHz, and its elements in a slot (14 symbols).
_RESOURCE_BLOCK_HZ = 180e3
_RESOURCE_ELEMENTS = 12 * 14
#: Resource blocks of the widest carrier (TS 38.101-1).
_MOST_RESOURCE_BLOCKS = 275
#: Sionna's number for the uplink.
_PUSCH = 0
_NEPERS_PER_DB = math.log(10) / 10


@dataclass(frozen=True, eq=False)
class SuccessCurve:
    """ψ(s), the share of blocks that arrive at s = ln SINR: cubics on steps of equal width.

    ψ does not fall, has a continuous slope, and is constant outside of the steps.

    Attributes:
        start: the s at which the first step begins.
        width: of a step in s.
        cubics: coefficients of (s − its start) / width on every step, highest power first,
            (4, steps) float64.

    """

    start: float
    width: float
    cubics: Tensor

    @classmethod
    def through(cls, success: Tensor, start_db: float, step_db: float) -> SuccessCurve:
        """Through values that do not fall, (n,) float64, at SINRs from ``start_db`` on.

        Below them it falls to 0 within one step: a silent worker succeeds with nothing. Above them
        it keeps the last value.
        """
        values = np.concatenate(([0.0, 0.0], success.numpy(), [float(success[-1])]))
        interpolant = PchipInterpolator(np.arange(len(values)), values)
        return cls(
            (start_db - 2 * step_db) * _NEPERS_PER_DB,
            step_db * _NEPERS_PER_DB,
            torch.from_numpy(interpolant.c),
        )

    def at(self, sinr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """ψ, ψ' and ψ'' in s at linear SINRs of 0 or more, each of their shape; differentiable."""
        a, b, c, d, u = self._pieces(sinr)
        value = ((a * u + b) * u + c) * u + d
        slope = ((3 * a * u + 2 * b) * u + c) / self.width
        return value, slope, (6 * a * u + 2 * b) / self.width**2

    def _pieces(self, sinr: Tensor) -> tuple[Tensor, ...]:
        """Coefficients of the step of every SINR, and where in the step it is."""
        steps = self.cubics.shape[-1]
        place = (sinr.clamp_min(math.exp(self.start)).log() - self.start) / self.width
        place = place.clamp(0.0, steps)
        step = place.detach().long().clamp_max(steps - 1)
        return (*self.cubics.to(sinr)[:, step], place - step)


@dataclass(frozen=True, eq=False)
class TransportBlockSuccess(SuccessRate):
    """1 − TBLER(SINR), the share of transport blocks that arrive at the first attempt.

    A transport block is what one slot (1 ms) of the scenario's band holds, with no pilots counted
    off. The MCS is the lowest one of the uplink's first table whose spectral efficiency,
    1.03 bit/s/Hz, reaches the default rate threshold of 0.7 nats/s/Hz = 1.01 bit/s/Hz.

    Attributes:
        mcs, mcs_table: index of the MCS, and of the table for the uplink (TS 38.214) that it is in.
        curve: as a function of ln SINR.

    """

    name: ClassVar[str] = "tb-success"
    symbol: ClassVar[str] = "1-TBLER"
    mcs: ClassVar[int] = 7
    mcs_table: ClassVar[int] = 1

    curve: SuccessCurve

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> Self:
        """For a transport block of the scenario's bandwidth."""
        blocks = min(int(scenario.bandwidth_hz // _RESOURCE_BLOCK_HZ), _MOST_RESOURCE_BLOCKS)
        if blocks < 1:
            raise InputError(
                f"bandwidth_hz: {scenario.bandwidth_hz:g} holds no resource block; accepted with "
                f"{cls.name}: {_RESOURCE_BLOCK_HZ:g} and above."
            )
        return cls(tabulated(cls.mcs, cls.mcs_table, blocks * _RESOURCE_ELEMENTS))

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """1 − TBLER."""
        return self.curve.at(sinr)[0]

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        """In closed form; the second one jumps from step to step of the curve."""
        _, slope, bend = self.curve.at(sinr)
        nothing = torch.zeros_like(sinr)
        return Slopes(slope, bend, nothing, nothing, nothing)

    def most_alone(self, gain: Tensor, pmax_w: Tensor) -> Tensor:
        """That of full power."""
        power = pmax_w.to(gain).expand_as(gain)
        return self.value(gain * power, power)


@functools.cache
def tabulated(mcs: int, mcs_table: int, resource_elements: int) -> SuccessCurve:
    """1 − TBLER of Sionna's ``PHYAbstraction``, for a transport block of so many elements.

    It knows the error rates at SINRs from −5 to 30 dB in steps of 0.1 dB and takes the nearest;
    here they are interpolated monotonically (PCHIP), which moves them by half a step at most.
    """
    try:
        from sionna.phy.nr.utils import MCSDecoderNR, TransportBlockNR
        from sionna.sys import PHYAbstraction
    except ImportError:
        raise InputError(
            "tb-success: needs Sionna; accepted after: pip install 'feduplink[sionna]'."
        ) from None
    exact = {"precision": "double", "device": "cpu"}
    tables = PHYAbstraction(**exact)
    known = tables.bler_table["category"][_PUSCH]["index"]
    _check_known("mcs_table", mcs_table, known)
    _check_known("mcs", mcs, known[mcs_table]["MCS"])
    start_db, end_db, step_db = tables.snr_db_interp_min_max_delta
    sinr_db = torch.arange(start_db, end_db, step_db, dtype=torch.float64)
    modulation, rate = MCSDecoderNR(**exact)(mcs, mcs_table, _PUSCH)
    size, count = TransportBlockNR(**exact)(modulation, rate, modulation * resource_elements)
    # Not by a call of the tables, which also draws acknowledgements from Sionna's generator.
    error = tables.get_bler(mcs, mcs_table, _PUSCH, int(size), 10 ** (sinr_db / 10))
    # A transport block arrives if all of its code blocks do.
    return SuccessCurve.through((1 - error) ** int(count), start_db, step_db)


def _check_known(what: str, index: int, known: dict[int, object]) -> None:
    if index not in known:
        listed = ", ".join(map(str, sorted(known)))
        raise InputError(f"{what}: {index} has no error rates in Sionna; accepted: {listed}.")
