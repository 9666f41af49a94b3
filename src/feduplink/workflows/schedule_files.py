"""What ``feduplink schedule`` leaves in its directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from feduplink.federated.uplink.rounds import RoundCosts
from feduplink.link import Schedule
from feduplink.progress import track
from feduplink.reporting.schedule import plot_front, plot_timeline
from feduplink.reporting.style import save_figure
from feduplink.scenario import Scenario
from feduplink.storage.files import write_text
from feduplink.storage.hdf5 import writing_hdf5
from feduplink.storage.run_directory import write_metrics
from feduplink.tables import TextTable, three_digits

SCHEDULES_FILE = "schedules.h5"


def cost_table(
    costs: Mapping[str, Sequence[RoundCosts]], bounds: Mapping[float, float], notes: Sequence[str]
) -> TextTable:
    """A row per policy and κ; ``bounds`` by κ, and without any no column for the gap to them."""
    rows = []
    for name, entries in costs.items():
        for entry in entries:
            kappa = entry.seconds_per_joule
            figures = entry.as_metrics()
            bound = bounds.get(kappa) if name == "schedule" and kappa is not None else None
            mean = None if kappa is None else float(entry.cost(kappa).mean())
            rows.append(
                [
                    name,
                    "" if kappa is None else f"{kappa:g}",
                    *(_number(figures[key]) for key in ("time_s", "energy_j")),
                    *(_number(figures[key]) for key in ("median_time_s", "median_energy_j")),
                    f"{figures['arrivals']:.2f}",
                    *([_gap(bound, mean)] if bounds else []),
                ]
            )
    columns = (
        "policy",
        "κ,\ns/J",
        "mean\ns",
        "mean\nJ",
        "median\ns",
        "median\nJ",
        "arrivals",
        *(["gap,\n%"] if bounds else []),
    )
    return TextTable("time and energy of a round", columns, rows, list(notes))


def _gap(bound: float | None, mean: float | None) -> str:
    """How far the bound is below the mean, in percent of the mean; empty where there is none."""
    return "" if bound is None or mean is None else f"{100 * (1 - bound / mean):.1f}"


@track("writing tables and figures", transient=True)
def write_schedules(
    directory: Path,
    scenario: Scenario,
    costs: Mapping[str, Sequence[RoundCosts]],
    bounds: Mapping[float, float],
    schedules: Mapping[float, Schedule],
    *,
    shown: float,
    table: TextTable,
    **further: Any,
) -> None:
    """Write table, front, timeline, schedules and ``metrics.json``.

    Args:
        directory: where to.
        scenario: the radio.
        costs: of every policy, one for each κ.
        bounds: on the mean time + κ · energy, by κ.
        schedules: of every channel, by κ.
        shown: the κ whose first round the timeline shows.
        table: what :func:`cost_table` made.
        further: more entries of ``metrics.json``.
    """
    remarks = "".join(f"\n{remark[0].upper()}{remark[1:]}.\n" for remark in table.remarks)
    write_text(directory / "schedule.md", table.markdown() + remarks)
    caption = "Mean time and energy of a round on the same channels, over the price κ of energy."
    save_figure(directory / "front.png", plot_front(costs, bounds, caption))
    timeline = plot_timeline(
        schedules[shown].take(torch.tensor(0)),
        float(scenario.pmax_w.max()),
        f"The first round, as scheduled at κ = {shown:g} s/J.",
    )
    save_figure(directory / "timeline.png", timeline)
    with writing_hdf5(directory / SCHEDULES_FILE) as file:
        for kappa, schedule in schedules.items():
            group = file.create_group(f"kappa={kappa:g}")
            group.attrs["kappa_s_per_j"] = kappa
            group["durations_s"] = schedule.durations_s.numpy()
            group["power_w"] = schedule.power.numpy()
    write_metrics(
        directory,
        {
            "title": "Time and energy of a round",
            "scenario": scenario.model_dump(mode="json"),
            "policies": {
                name: [entry.as_metrics() for entry in entries] for name, entries in costs.items()
            },
            "bounds": [
                {"kappa_s_per_j": kappa, "cost_s": bound} for kappa, bound in bounds.items()
            ],
            **further,
        },
    )


def _number(value: float | None) -> str:
    return "" if value is None else three_digits(value)
