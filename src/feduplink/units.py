"""Units in which quantities are displayed, and powers with a unit as they are typed.

Inside the package everything is SI with natural logarithms: W, s, J, nat/s/Hz, nat/s/Hz/W. Tables,
plots and pages show ``engineering`` units, those of 3GPP and Sionna: dBm, bit/s/Hz and, with the
bandwidth of the scenario, Mbit/J. ``nats`` are the units of the paper: dBW, nat/s/Hz, nat/s/Hz/W.
Files of numbers (``metrics.json``, CSV, tensors) are SI in either case.

>>> display_unit("nats/s/Hz").text(0.7)
'1.01 bit/s/Hz'
>>> display_unit("nats/s/Hz/W", bandwidth_hz=180e3).text(55)
'14.3 Mbit/J'
>>> power_text(-20.0)
'10 dBm'
>>> set_units("nats")
>>> power_text(-20.0), display_unit("nats/s/Hz").text(0.7)
('-20 dBW', '0.7 nats/s/Hz')
>>> set_units("engineering")
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, get_args

from feduplink.errors import InputError, unknown_name

UnitSystem = Literal["engineering", "nats"]

_system: UnitSystem = "engineering"

_POWER = re.compile(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*(dBW|dBm|W|mW|uW|µW)?\s*", re.IGNORECASE)
#: Watts per linear unit of power, in lower case.
_WATTS = {"w": 1.0, "mw": 1e-3, "uw": 1e-6, "µw": 1e-6}


@dataclass(frozen=True)
class DisplayUnit:
    """The unit in which a quantity is displayed.

    Attributes:
        symbol: of the unit; empty for a pure number.
        factor: displayed value per value in the unit of the package.
    """

    symbol: str
    factor: float = 1.0

    def text(self, value: float) -> str:
        """A value of the package, three significant digits, with its displayed unit."""
        return f"{self.factor * value:.3g} {self.symbol}".rstrip()


def set_units(system: UnitSystem) -> None:
    """Display quantities in ``engineering`` units (the default) or in ``nats``, the paper's.

    What an option or a field means never changes: ``pmax_dbw`` is in dBW in either case.

    Args:
        system: ``engineering`` or ``nats``, for the whole process.

    Raises:
        InputError: the system is unknown.
    """
    global _system
    if system not in get_args(UnitSystem):
        raise unknown_name("units", str(system), get_args(UnitSystem))
    _system = system


def display_unit(unit: str, bandwidth_hz: float | None = None) -> DisplayUnit:
    """The displayed unit of a quantity whose unit in the package is ``unit``.

    R bit/s/Hz = R / ln 2 nat/s/Hz; EE Mbit/J = EE B / (10⁶ ln 2) nat/s/Hz/W.

    Args:
        unit: of a measure, such as ``nats/s/Hz``; one without a conversion is displayed as it is.
        bandwidth_hz: B, Hz; without it an energy efficiency is in bit/s/Hz/W.
    """
    if _system == "engineering":
        if unit == "nats/s/Hz":
            return DisplayUnit("bit/s/Hz", 1 / math.log(2))
        if unit == "nats/s/Hz/W" and bandwidth_hz is not None:
            return DisplayUnit("Mbit/J", bandwidth_hz / math.log(2) / 1e6)
        if unit == "nats/s/Hz/W":
            return DisplayUnit("bit/s/Hz/W", 1 / math.log(2))
    return DisplayUnit(unit)


def power_unit() -> str:
    """The logarithmic unit in which powers are displayed: dBm, or dBW with ``nats``."""
    return "dBm" if _system == "engineering" else "dBW"


def displayed_power(power_dbw: float) -> float:
    """A power in dBW, in the :func:`power_unit`."""
    return power_dbw + 30.0 if _system == "engineering" else power_dbw


def power_text(power_dbw: float) -> str:
    """A power given in dBW, as it is displayed."""
    return f"{displayed_power(power_dbw):.4g} {power_unit()}"


def parse_power_dbw(text: str, field: str = "power") -> float:
    """The power in dBW that a text holds.

    Args:
        text: a number in dBW, or one with dBW, dBm, W, mW or µW behind it.
        field: what it is given for, in the error.

    Raises:
        InputError: it is not a power, or one in watts that is not above 0.

    >>> parse_power_dbw("10mW"), parse_power_dbw("10 dBm"), parse_power_dbw("-20")
    (-20.0, -20.0, -20.0)
    """
    found = _POWER.fullmatch(text)
    try:
        value = float(found[1]) if found else math.nan
    except ValueError:  # two points
        value = math.nan
    unit = found[2].lower() if found and found[2] else "dbw"
    if not math.isfinite(value) or (unit in _WATTS and value <= 0):
        raise InputError(
            f"{field}: {text!r} is not a power; accepted: a finite number in dBW, or with its "
            "unit, dBW, dBm, W, mW or uW, above 0 if in watts."
        )
    if unit in _WATTS:
        return 10 * math.log10(value * _WATTS[unit])
    return value - 30.0 if unit == "dbm" else value
