"""Transport-block success rate from Sionna's block error rates of 5G NR.

The measure ``tb-success`` is an alternative to the exponential waterfall of ``psr``: the
probability that a transport block arrives in the first transmission, for one modulation and coding
scheme (MCS) of the uplink. For another MCS, derive a class and use it as ``package.module:Class``:

    class Mcs10(TransportBlockSuccess):
        name = "tb-success-mcs10"
        mcs = 10

Sionna is imported only when a curve is computed.
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

#: Bandwidth of a resource block (12 subcarriers of 15 kHz), and its resource elements per slot (14
#: symbols).
_RESOURCE_BLOCK_HZ = 180e3
_RESOURCE_ELEMENTS = 12 * 14
#: Maximum number of resource blocks of a carrier (TS 38.101-1).
_MAX_RESOURCE_BLOCKS = 275
#: Sionna's index of the uplink shared channel.
_PUSCH = 0
#: ln SINR per dB of SINR.
_LN_PER_DB = math.log(10) / 10


@dataclass(frozen=True, eq=False)
class SuccessCurve:
    """Success probability ψ(s) at s = ln SINR, as a piecewise cubic on intervals of equal width.

    ψ is non-decreasing and continuously differentiable, and constant outside the intervals.

    Attributes:
        start: lower end of the first interval, in s.
        width: width of an interval, in s.
        cubics: coefficients of the polynomials in (s − lower end) / width, highest power first,
            (4, intervals) float64.

    """

    start: float
    width: float
    cubics: Tensor

    @classmethod
    def through(cls, success: Tensor, start_db: float, step_db: float) -> SuccessCurve:
        """Interpolate success probabilities monotonically (PCHIP).

        Below ``start_db`` the curve falls to 0 within one step, so that the success of a silent
        worker is 0. Above the last SINR it is constant.

        Args:
            success: non-decreasing success probabilities, (n,) float64.
            start_db: SINR of the first value, dB.
            step_db: distance between the SINRs, dB.

        Returns:
            The curve.
        """
        values = np.concatenate(([0.0, 0.0], success.numpy(), [float(success[-1])]))
        interpolant = PchipInterpolator(np.arange(len(values)), values)
        return cls(
            (start_db - 2 * step_db) * _LN_PER_DB,
            step_db * _LN_PER_DB,
            torch.from_numpy(interpolant.c),
        )

    def at(self, sinr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Evaluate the curve; differentiable.

        Args:
            sinr: SINR, (...), linear, non-negative.

        Returns:
            ψ, dψ/ds and d²ψ/ds², (...) each.
        """
        a, b, c, d, u = self._pieces(sinr)
        value = ((a * u + b) * u + c) * u + d
        slope = ((3 * a * u + 2 * b) * u + c) / self.width
        return value, slope, (6 * a * u + 2 * b) / self.width**2

    def _pieces(self, sinr: Tensor) -> tuple[Tensor, ...]:
        """Coefficients of the interval of every SINR, and the relative position in it."""
        steps = self.cubics.shape[-1]
        place = (sinr.clamp_min(math.exp(self.start)).log() - self.start) / self.width
        place = place.clamp(0.0, steps)
        step = place.detach().long().clamp_max(steps - 1)
        return (*self.cubics.to(sinr)[:, step], place - step)


@dataclass(frozen=True, eq=False)
class TransportBlockSuccess(SuccessRate):
    """Transport-block success rate 1 − TBLER(SINR) of the first transmission.

    A transport block fills one slot (1 ms) of the scenario's bandwidth, without overhead for
    pilots. The default MCS is the lowest of the first uplink table whose spectral efficiency,
    1.03 bit/s/Hz, reaches the default rate threshold of 0.7 nats/s/Hz = 1.01 bit/s/Hz.

    Attributes:
        mcs: index of the MCS.
        mcs_table: index of the MCS table of the uplink (TS 38.214).
        curve: success probability as a function of ln SINR.

    """

    name: ClassVar[str] = "tb-success"
    symbol: ClassVar[str] = "1-TBLER"
    mcs: ClassVar[int] = 7
    mcs_table: ClassVar[int] = 1

    curve: SuccessCurve

    @classmethod
    def from_scenario(cls, scenario: Scenario) -> Self:
        """Measure for transport blocks of the scenario's bandwidth, of at least 180 kHz."""
        blocks = min(int(scenario.bandwidth_hz // _RESOURCE_BLOCK_HZ), _MAX_RESOURCE_BLOCKS)
        if blocks < 1:
            raise InputError(
                f"bandwidth_hz: {scenario.bandwidth_hz:g} Hz is less than one resource block; "
                f"accepted with {cls.name}: {_RESOURCE_BLOCK_HZ:g} and above."
            )
        return cls(tabulated(cls.mcs, cls.mcs_table, blocks * _RESOURCE_ELEMENTS))

    def value(self, sinr: Tensor, power: Tensor) -> Tensor:
        """Success rate 1 − TBLER, (..., L)."""
        return self.curve.at(sinr)[0]

    def slopes(self, sinr: Tensor, power: Tensor) -> Slopes:
        """Derivatives in closed form; the second is discontinuous between intervals."""
        _, slope, bend = self.curve.at(sinr)
        nothing = torch.zeros_like(sinr)
        return Slopes(slope, bend, nothing, nothing, nothing)

    def most_alone(self, gain: Tensor, pmax_w: Tensor) -> Tensor:
        """Success rate at Pmax, (..., L)."""
        power = pmax_w.to(gain).expand_as(gain)
        return self.value(gain * power, power)


@functools.cache
def tabulated(mcs: int, mcs_table: int, resource_elements: int) -> SuccessCurve:
    """Success curve 1 − TBLER from the tables of Sionna's ``PHYAbstraction``.

    The tables contain error rates at SINRs from −5 to 30 dB in steps of 0.1 dB. They are
    interpolated monotonically (PCHIP), whereas Sionna uses the nearest SINR.

    Args:
        mcs: index of the MCS.
        mcs_table: index of the MCS table of the uplink (TS 38.214).
        resource_elements: number of resource elements of a transport block.

    Returns:
        The curve.

    Raises:
        InputError: if Sionna is not installed, or has no error rates for this MCS.
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
    # get_bler instead of a call of the object, which would also draw acknowledgements at random.
    error = tables.get_bler(mcs, mcs_table, _PUSCH, int(size), 10 ** (sinr_db / 10))
    # A transport block arrives if all its code blocks arrive.
    return SuccessCurve.through((1 - error) ** int(count), start_db, step_db)


def _check_known(what: str, index: int, known: dict[int, object]) -> None:
    """Raise :class:`InputError` if ``index`` is not in Sionna's tables."""
    if index not in known:
        listed = ", ".join(map(str, sorted(known)))
        raise InputError(f"{what}: Sionna has no error rates for {index}; accepted: {listed}.")
