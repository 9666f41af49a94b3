"""Types of options for argparse; a refusal says what is accepted."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence

from feduplink.errors import did_you_mean


def names_listed(text: str) -> list[str]:
    """An argparse type: names with commas between them.

    >>> names_listed("rand, orth,")
    ['rand', 'orth']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """An argparse type: one of these names; they belong in ``choices`` too, for the help."""

    def parse(text: str) -> str:
        if text not in names:
            guess = did_you_mean(text, names)
            raise argparse.ArgumentTypeError(
                f"{text!r} is unknown{guess} accepted: {', '.join(names)}"
            )
        return text

    return parse


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """An argparse type: an integer in [least, most]."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not accepted; accepted: whole numbers from {least} to {most}"
            )
        return number

    return parse


def _number_type(accepted: str, accepts: Callable[[float], bool]) -> Callable[[str], float]:
    """An argparse type: a number that ``accepts`` takes, ``accepted`` in words."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not accepts(number):
            raise argparse.ArgumentTypeError(f"{text!r} is not accepted; accepted: {accepted}")
        return number

    return parse


positive_number = _number_type("a finite number above 0", lambda x: 0 < x < math.inf)
non_negative_number = _number_type("a finite number of 0 or more", lambda x: 0 <= x < math.inf)
seconds = _number_type("seconds from 0 on", lambda x: 0 <= x < math.inf)
probability = _number_type("a number between 0 and 1, exclusive", lambda x: 0 < x < 1)


def positive_numbers(text: str) -> float | list[float]:
    """An argparse type: one finite number above 0, or several with commas."""
    numbers = [positive_number(part) for part in text.split(",")]
    return numbers if len(numbers) > 1 else numbers[0]
