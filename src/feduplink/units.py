"""Units of displayed quantities, and parsing of powers with a unit.

Internally all quantities are in SI units with natural logarithms: W, s, J, nat/s/Hz, nat/s/Hz/W.
Tables, plots and pages use one of two systems of units. ``engineering``, the default, follows 3GPP
and Sionna: dBm, bit/s/Hz and, given the bandwidth, Mbit/J. ``nats`` follows the paper: dBW,
nat/s/Hz, nat/s/Hz/W. Files of numbers (``metrics.json``, CSV, tensors) are in SI units in either
case.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from feduplink.errors import InputError, unknown_name

UnitSystem = Literal["engineering", "nats"]

_system: UnitSystem = "engineering"

_POWER = re.compile(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*(dBW|dBm|W|mW|uW|µW)?\s*", re.IGNORECASE)
#: Watts per linear unit of power, by the unit in lower case.
_WATTS = {"w": 1.0, "mw": 1e-3, "uw": 1e-6, "µw": 1e-6}


@dataclass(frozen=True)
class DisplayUnit:
    """Unit in which a quantity is displayed.

    Attributes:
        symbol: symbol of the unit; empty for a dimensionless quantity.
        factor: change of the displayed value per unit of the internal value.
        offset: displayed value of an internal value of zero.
    """

    symbol: str
    factor: float = 1.0
    offset: float = 0.0

    def displayed(self, value: float) -> float:
        """Convert an internal value to this unit."""
        return self.factor * value + self.offset

    def text(self, value: float, form: str = ".3g") -> str:
        """Format an internal value with the displayed unit.

        Args:
            value: value in the internal unit.
            form: format of the number, by default three significant digits.

        Returns:
            The number with its unit.
        """
        return self.label(format(self.displayed(value), form))

    def label(self, name: str, separator: str = " ") -> str:
        """Append the symbol of the unit, if there is one, to a name."""
        return f"{name}{separator}{self.symbol}" if self.symbol else name


def set_units(system: UnitSystem) -> None:
    """Set the units of tables, plots and pages, for the whole process.

    Options, fields and files of numbers keep their units: ``pmax_dbw`` is in dBW in either case.

    Args:
        system: ``engineering`` (dBm, bit/s/Hz, Mbit/J; the default) or ``nats`` (dBW, nats/s/Hz,
            nats/s/Hz/W, as in the paper).

    Raises:
        InputError: if the system is unknown.

    >>> import feduplink as fu
    >>> fu.set_units("nats")
    >>> power_text(-20.0)
    '-20 dBW'
    >>> fu.set_units("engineering")
    """
    global _system
    if system not in get_args(UnitSystem):
        raise unknown_name("units", str(system), get_args(UnitSystem))
    _system = system


def display_unit(unit: str, bandwidth_hz: float | None = None) -> DisplayUnit:
    """Unit in which a quantity is displayed, in the current system of units.

    1 nat/s/Hz = 1 / ln 2 bit/s/Hz, and 1 nat/s/Hz/W = B / (10⁶ ln 2) Mbit/J at a bandwidth of B Hz.

    Args:
        unit: internal unit, such as ``nats/s/Hz``; one without a conversion is displayed as it is.
        bandwidth_hz: bandwidth B, Hz; None: an energy efficiency is displayed in bit/s/Hz/W.

    Returns:
        The unit, with its conversion factor.
    """
    if _system == "engineering":
        if unit == "nats/s/Hz":
            return DisplayUnit("bit/s/Hz", 1 / math.log(2))
        if unit == "nats/s/Hz/W" and bandwidth_hz is not None:
            return DisplayUnit("Mbit/J", bandwidth_hz / math.log(2) / 1e6)
        if unit == "nats/s/Hz/W":
            return DisplayUnit("bit/s/Hz/W", 1 / math.log(2))
    return DisplayUnit(unit)


def scaled_unit(unit: str, values: Iterable[float]) -> DisplayUnit:
    """Unit with the prefix milli if no value reaches 1; with ``nats`` without a prefix.

    Args:
        unit: SI unit that takes prefixes, such as ``s`` or ``J``.
        values: values displayed together; infinite and undefined ones are ignored.

    Returns:
        The unit, with its conversion factor.

    >>> scaled_unit("J", [0.017, 0.44]).text(0.017)
    '17 mJ'
    >>> scaled_unit("s", [0.8, 17.0]).text(0.8)
    '0.8 s'
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if _system == "engineering" and 0 < largest < 1:
        return DisplayUnit(f"m{unit}", 1e3)
    return DisplayUnit(unit)


def power_unit() -> str:
    """Logarithmic unit in which powers are displayed: ``dBm``, or ``dBW`` with ``nats``."""
    return "dBm" if _system == "engineering" else "dBW"


def displayed_power(power_dbw: float) -> float:
    """Convert a power from dBW to the unit :func:`power_unit`."""
    return power_dbw + 30.0 if _system == "engineering" else power_dbw


def power_text(power_dbw: float | Sequence[float]) -> str:
    """Format a power given in dBW, or the range of several, with the displayed unit.

    >>> power_text([-20.0, -23.0])
    '7 to 10 dBm'
    """
    if isinstance(power_dbw, Sequence):
        low, high = displayed_power(min(power_dbw)), displayed_power(max(power_dbw))
        if low != high:
            return f"{low:.4g} to {high:.4g} {power_unit()}"
        power_dbw = power_dbw[0]
    return f"{displayed_power(power_dbw):.4g} {power_unit()}"


def parse_power_dbw(text: str, field: str = "power") -> float:
    """Parse a power with an optional unit.

    Args:
        text: a number, optionally followed by dBW, dBm, W, mW, uW or µW; dBW if no unit is given.
        field: name of the option or field, for the error message.

    Returns:
        The power, dBW.

    Raises:
        InputError: if the text is not a power, or a power in W, mW or µW that is not positive.

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
