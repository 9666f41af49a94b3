"""Schedules that the figure of time and energy shows beside the policies."""

from __future__ import annotations

from collections.abc import Callable

from feduplink.federated import AccessScheme, ComputedSchedule, FixedPowerAccess, LearnedSchedule

#: What a joule is worth, s: a round then takes about as long as with pdx, for 40 % less energy.
_KAPPA = 10.0


def _row(scheme: str, delivery: float | None = None) -> str:
    """The name of a row, a variant of the scheme."""
    share = "" if delivery is None else f",d={delivery:g}"
    return f"{scheme}:kappa={_KAPPA:g}{share}"


FASTEST = ComputedSchedule.name
CHEAPER = _row(ComputedSchedule.name)
HALF, FIFTH = (_row(ComputedSchedule.name, delivery) for delivery in (0.5, 0.2))
FIXED, LEARNED = _row(FixedPowerAccess.name), _row(LearnedSchedule.name)

#: By the names of their rows: the fastest round, and at κ = 10 s/J everyone in every round, or in
#: half or a fifth of them; one power per worker and round; the network.
SCHEDULES: dict[str, Callable[[], AccessScheme]] = {
    FASTEST: ComputedSchedule,
    CHEAPER: lambda: ComputedSchedule(_KAPPA),
    HALF: lambda: ComputedSchedule(_KAPPA, 0.5),
    FIFTH: lambda: ComputedSchedule(_KAPPA, 0.2),
    FIXED: lambda: FixedPowerAccess(_KAPPA),
    LEARNED: lambda: LearnedSchedule(_KAPPA),
}
