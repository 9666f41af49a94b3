"""Constraints as a user writes them: ``NAME >= LIMIT`` or ``NAME <= LIMIT``."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from feduplink.errors import InputError

_PATTERN = re.compile(r"\s*(?P<measure>[^<>=\s]+)\s*(?P<sense>[<>]=)\s*(?P<limits>.+)")


class ConstraintText(NamedTuple):
    """The parts of a written constraint.

    Attributes:
        measure: its name, registered or ``package.module:Class``.
        at_most: whether the limit is an upper one.
        limits: one, or one per worker.

    """

    measure: str
    at_most: bool
    limits: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, workers: int) -> ConstraintText:
        """Take a constraint apart.

        >>> ConstraintText.parse("rate >= 0.7", workers=8)
        ConstraintText(measure='rate', at_most=False, limits=(0.7,))
        """
        found = _PATTERN.fullmatch(text)
        try:
            limits = tuple(float(word) for word in found["limits"].split()) if found else ()
        except ValueError:
            limits = ()
        if found is None or len(limits) not in (1, workers) or not all(map(math.isfinite, limits)):
            raise InputError(
                f"constraints: {text!r} is not accepted; accepted: NAME >= LIMIT or NAME <= LIMIT, "
                f"with one limit or {workers}, one per worker, separated by spaces."
            )
        return cls(found["measure"], found["sense"] == "<=", limits)
