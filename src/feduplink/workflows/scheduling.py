"""Transmission schedules: the Pareto front between the time and the energy of a round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field

from feduplink.errors import InputError
from feduplink.scenario import MODEL_WEIGHTS, Scenario
from feduplink.settings import CHANNELS_PER_SPLIT
from feduplink.tables import TextTable, three_digits
from feduplink.units import DisplayUnit, scaled_unit
from feduplink.workflows.federation import Delivery, delivery_of
from feduplink.workflows.options import (
    ChannelsOption,
    ChannelsPerSplit,
    CommandLine,
    PoliciesOption,
    Reading,
    Seed,
    workflow,
)
from feduplink.workflows.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

    from feduplink.federated import Rounds, UplinkRecord, UplinkRules
    from feduplink.link import Schedule
    from feduplink.reporting.style import StyledFigure

SCHEDULES_FILE = "schedules.h5"
_KAPPAS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0)
#: Relative gap between cost and lower bound at which the branch and bound of a channel stops.
_RELATIVE_GAP = 0.02


class FrontPoint(NamedTuple):
    """Schedules at one price of energy.

    Attributes:
        kappa: price of energy κ, s/J.
        schedule: schedules of N rounds.
        airtime_s: duration of every round, (N,), s.
        energy_j: energy of all workers in every round, (N,), J.
        delivered: delivery rate of every worker, (L,).
        lower_bound: certified lower bound on the mean of time + κ · energy, s; None if not
            computed.
    """

    kappa: float
    schedule: Schedule
    airtime_s: Tensor
    energy_j: Tensor
    delivered: Tensor
    lower_bound: float | None


@dataclass(frozen=True, repr=False, eq=False)
class Front(Result):
    """Result of :func:`make_schedules`: schedules that minimise time + κ · energy, and policies.

    Attributes:
        scenario: the cell and the radio.
        costs: time, energy and arrivals of the rounds, by policy and κ; κ is None for policies that
            do not depend on it.
        schedules: schedules of the N rounds, by κ.
        bounds: certified lower bounds on the mean cost, s, by κ.
        bits: size Z of one upload, bits, or one value per worker.
        delivery: required delivery rate d, one value or one per worker.
        channels: origin of the channels, as in ``metrics.json``.
        origin: origin of the channels in words.
        notes: remarks on the channels.
        seed: seed of all random numbers.

    >>> import feduplink as fu
    >>> front = fu.make_schedules(
    ...     fu.Scenario(workers=2), kappa=[0, 10], policies=["max"], channels_per_split=5
    ... )
    >>> front.kappa, front.at(0).airtime_s.shape
    ((0, 10), torch.Size([5]))
    """

    kind = "front"
    files = f"schedule.md, front.png, timeline.png, {SCHEDULES_FILE}, metrics.json"
    table_file = "schedule.md"

    scenario: Scenario
    costs: Mapping[str, Mapping[float | None, UplinkRecord]]
    schedules: Mapping[float, Schedule]
    bounds: Mapping[float, float]
    bits: Any
    delivery: tuple[float, ...]
    channels: Mapping[str, Any]
    origin: str
    notes: tuple[str, ...]
    seed: int

    @property
    def kappa(self) -> tuple[float, ...]:
        """Prices of energy κ, s/J."""
        return tuple(self.schedules)

    def at(self, kappa: float) -> FrontPoint:
        """Schedules at one price of energy.

        Args:
            kappa: price of energy κ, s/J, one of :attr:`kappa`.

        Returns:
            The schedules, with time, energy, delivery rates and lower bound.

        Raises:
            InputError: if ``kappa`` is another price.
        """
        if kappa not in self.schedules:
            accepted = ", ".join(f"{value:g}" for value in self.schedules)
            raise InputError(f"kappa: {kappa:g} is not on the front; accepted: {accepted}.")
        record = self.costs["schedule"][kappa]
        return FrontPoint(
            kappa,
            self.schedules[kappa],
            record.airtime_s,
            record.energy_j,
            record.success.mean(0),
            self.bounds.get(kappa),
        )

    def table(self) -> TextTable:
        """Table with a row per policy and κ."""
        records = [record for by_price in self.costs.values() for record in by_price.values()]
        seconds = scaled_unit("s", _known(records, "time_s", "median_time_s"))
        joules = scaled_unit("J", _known(records, "energy_j", "median_energy_j"))
        units = {"time_s": seconds, "energy_j": joules}
        measures = {**units, **{f"median_{key}": unit for key, unit in units.items()}}
        rows = []
        for name, by_price in self.costs.items():
            for kappa, record in by_price.items():
                figures = record.as_metrics()
                gap = ""
                if name == "schedule" and kappa is not None and kappa in self.bounds:
                    mean = float(record.cost(kappa).mean())
                    gap = f"{100 * (1 - self.bounds[kappa] / mean):.1f}"
                rows.append(
                    [
                        name,
                        "" if kappa is None else f"{kappa:g}",
                        *(_number(figures[key], unit) for key, unit in measures.items()),
                        f"{figures['arrivals']:.2f}",
                        *([gap] if self.bounds else []),
                    ]
                )
        columns = (
            "policy",
            "κ,\ns/J",
            f"mean\ntime, {seconds.symbol}",
            f"mean\nenergy, {joules.symbol}",
            f"median\ntime, {seconds.symbol}",
            f"median\nenergy, {joules.symbol}",
            f"arrivals\nof {self.scenario.workers}",
            *(["gap,\n%"] if self.bounds else []),
        )
        remarks = [
            "price κ of energy: seconds per joule; rows without one do not depend on it",
            "arrivals: mean number of models that arrive per round",
        ]
        if any(rate < 1 for rate in self.delivery):
            rates = ", ".join(f"{rate:g}" for rate in self.delivery)
            remarks.append(f"schedule: required delivery rate {rates} of every worker")
        return TextTable("time and energy of a round", columns, rows, remarks, self.notes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot mean energy against mean time of a round: a point per policy, or a line over κ.

        Args:
            ax: matplotlib axes to draw in; None: a new figure.

        Returns:
            The axes.
        """
        from feduplink.reporting.schedule import draw_front, plot_front

        if ax is None:
            ax = plot_front(self.costs, self.bounds, delivery=self.delivery).axes[0]
        else:
            draw_front(ax, self.costs, self.bounds, self.delivery)
        return ax

    def records(self) -> Iterator[dict[str, Any]]:
        """Rows with the columns policy, kappa, channel, time_s, energy_j and arrivals."""
        for name, by_price in self.costs.items():
            for kappa, record in by_price.items():
                columns = {
                    "time_s": record.airtime_s,
                    "energy_j": record.energy_j,
                    "arrivals": record.success.sum(-1),
                }
                for channel in range(len(record.success)):
                    row = {"policy": name, "kappa": kappa, "channel": channel}
                    yield row | {key: float(values[channel]) for key, values in columns.items()}

    def metrics(self) -> dict[str, Any]:
        """Means and medians of time and energy by policy, and the bounds."""
        return {
            "title": "Time and energy of a round",
            "scenario": self.scenario.model_dump(mode="json"),
            "policies": {
                name: [{"kappa_s_per_j": k, **record.as_metrics()} for k, record in records.items()]
                for name, records in self.costs.items()
            },
            "bounds": [
                {"kappa_s_per_j": kappa, "cost_s": bound} for kappa, bound in self.bounds.items()
            ],
            "seed": self.seed,
            "delivery": list(self.delivery),
            "model_bits": self.bits,
            "notes": list(self.notes),
            "channels": dict(self.channels),
        }

    def write_files(self, directory: Path) -> None:
        """Write the table and all schedules."""
        from feduplink.storage.hdf5 import writing_hdf5

        super().write_files(directory)
        with writing_hdf5(directory / SCHEDULES_FILE) as file:
            for kappa, schedule in self.schedules.items():
                group = file.create_group(f"kappa={kappa:g}")
                group.attrs["kappa_s_per_j"] = kappa
                group["durations_s"] = schedule.durations_s.numpy()
                group["power_w"] = schedule.power.numpy()

    def figures(self) -> dict[str, StyledFigure]:
        """Pareto front, and timeline of the first round."""
        import torch

        from feduplink.reporting.schedule import plot_front, plot_timeline

        caption = "Mean time and energy of a round on the same channels, over the price κ."
        shown = self.kappa[len(self.kappa) // 2]
        timeline = plot_timeline(
            self.schedules[shown].take(torch.tensor(0)),
            float(self.scenario.max_power.max()),
            f"The first round, as scheduled at κ = {shown:g} s/J.",
            shown,
        )
        front = plot_front(self.costs, self.bounds, caption, self.delivery)
        return {"front": front, "timeline": timeline}


@workflow
def make_schedules(
    scenario: Scenario,
    channels: ChannelsOption = None,
    *,
    kappa: Annotated[
        float | Sequence[float],
        Field(
            description="Prices of energy, seconds per joule; schedules minimise time + kappa * "
            "energy for each; 0: minimum time"
        ),
        CommandLine(
            "S/J[,S/J...]",
            type=tuple[Annotated[float, Field(ge=0)], ...],
            default=",".join(f"{value:g}" for value in _KAPPAS),
        ),
    ] = _KAPPAS,
    delivery: Delivery = (1.0,),
    model_weights: Annotated[
        int,
        Field(ge=1, le=10**12, description="Number of weights of the uploaded model"),
        CommandLine("N"),
    ] = MODEL_WEIGHTS,
    bits: float | Tensor | None = None,
    policies: PoliciesOption = None,
    budget_s: Annotated[
        float,
        Field(
            ge=0,
            description="Also compute a certified lower bound; time limit per kappa, in seconds",
        ),
        CommandLine("SECONDS"),
    ] = 0.0,
    channels_per_split: ChannelsPerSplit = CHANNELS_PER_SPLIT,
    seed: Seed = 0,
    **reading: Reading,
) -> Front:
    """Time–energy Pareto front of transmission schedules on test or recorded channels.

    Args:
        scenario: the cell and the radio.
        channels: recorded or drawn :class:`feduplink.Channels`, a file, or an array (N, L, L). The
            test split is used, of an array all channels. None: channels are drawn.
        kappa: prices of energy κ, s/J; schedules minimise time + κ · energy for each.
        delivery: required delivery rate d of every worker, in (0, 1]; one value or one per worker.
        model_weights: number of weights of the uploaded model.
        bits: size Z of one upload, () or (L,), bits, instead of ``model_weights``.
        policies: further policies to compare; those that depend on κ are always included.
        budget_s: time limit per κ of a certified lower bound on the cost, s; 0: no bound.
        channels_per_split: number of channels to draw for each split.
        seed: seed of all random numbers.
        reading: ``noise_power_w``, ``transpose`` and ``channel_axes`` of a file or an array, see
            :func:`feduplink.make_channels`.

    Returns:
        Schedules for every κ, with the time in s and the energy in J of every round, and those of
        the policies.

    Raises:
        InputError: if an argument is not accepted.

    >>> import feduplink as fu
    >>> front = fu.make_schedules(
    ...     fu.Scenario(workers=2), kappa=[0, 10], policies=["max"], channels_per_split=5
    ... )
    >>> [kappa for kappa in front.costs["schedule"]], list(front.costs["max"])
    ([0, 10], [None])
    """
    from feduplink.channels.channel_set import channels_for
    from feduplink.federated import Rounds, UplinkRecord, UplinkRules, everyone, transmit
    from feduplink.policies.store import default_policies, make_policies, make_policy
    from feduplink.registry import POLICIES
    from feduplink.scenario import float64

    scenario, data = channels_for(scenario, channels, channels_per_split, seed=seed, **reading)
    rates = delivery_of(delivery, scenario)
    kappas = sorted({kappa} if isinstance(kappa, int | float) else set(kappa))
    if budget_s > 0 and rates != 1.0:
        raise InputError(
            "budget-s: accepted only if every worker delivers in every round, --delivery 1."
        )
    present = everyone(len(data.test), scenario.workers)
    rounds = Rounds.draw(scenario, present, seed=seed, run=0, recorded=data.test)
    uploaded = scenario.model_bits(model_weights) if bits is None else float64(bits)
    rules = UplinkRules(scenario, uploaded)
    names = default_policies() if policies is None else policies
    given: dict[str, Any] = {"channels": data, "seed": seed}
    compared = make_policies(names, scenario, **given) if names else {}
    costs = {name: {p.kappa: transmit(p, rounds, rules)} for name, p in compared.items()}
    priced: dict[str, Any] = {
        name: name
        for name in POLICIES.names()
        if name != "schedule" and "kappa" in getattr(POLICIES.find(name), "options", ())
    }
    priced |= {name: p for name, p in compared.items() if "kappa" in p.open_options}
    for name, what in priced.items():
        costs[name] = {
            price: transmit(make_policy(what, scenario, kappa=price, **given), rounds, rules)
            for price in kappas
        }
    bounds: dict[float, float] = {}
    if rates == 1.0:
        schedules, bounds = _everyone(kappas, rounds, rules, budget_s)
    else:
        schedules = {}
        for price in kappas:
            policy: Any = make_policy(
                "schedule", scenario, kappa=price, delivery=rates, bits=uploaded, **given
            )
            schedules[price] = policy.step(rounds.observed, bits=uploaded)
    costs["schedule"] = {
        price: UplinkRecord.from_transmission(schedule, rounds, rules)
        for price, schedule in schedules.items()
    }
    return Front(
        scenario,
        costs,
        schedules,
        bounds,
        rules.bits.tolist(),
        (rates,) if isinstance(rates, float) else rates,
        data.as_metrics(),
        data.headline(data.test),
        tuple(data.notes),
        seed,
    )


def _everyone(
    kappas: Sequence[float], rounds: Rounds, rules: UplinkRules, budget_s: float
) -> tuple[dict[float, Schedule], dict[float, float]]:
    """Schedules with all workers in every round, and lower bounds on their mean cost, by κ."""
    from feduplink.scheduling import bound_front, find_front

    scenario, bits = rules.scenario, rules.bits
    bounds: dict[float, float] = {}
    if budget_s > 0:
        proved = bound_front(
            scenario, rounds.csi, bits, kappas, gap=_RELATIVE_GAP, budget_s=budget_s
        )
        bounds = {k: float(p.lower.mean()) for k, p in zip(kappas, proved, strict=True)}
        if scenario.csi_noise == 0:
            found = [p.solution.schedule for p in proved]
            return dict(zip(kappas, found, strict=True)), bounds
    solutions = find_front(scenario, rounds.observed, bits, kappas)
    return {k: s.schedule for k, s in zip(kappas, solutions, strict=True)}, bounds


def _known(records: Sequence[UplinkRecord], *keys: str) -> list[float]:
    """Metrics of all records with these names, without undefined ones."""
    figures = [record.as_metrics()[key] for record in records for key in keys]
    return [value for value in figures if value is not None]


def _number(value: float | None, unit: DisplayUnit) -> str:
    """Three significant digits in a unit; empty for None."""
    return "" if value is None else three_digits(unit.displayed(value))
