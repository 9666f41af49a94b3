"""``feduplink schedule``: the fastest and the cheapest rounds, and all between."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from feduplink.channels import Channels
from feduplink.cli.arguments.schedule_arguments import GAP
from feduplink.cli.channel_source import channels_from
from feduplink.cli.console import console
from feduplink.cli.schedule_options import delivery_from
from feduplink.cli.tables import terminal_table
from feduplink.errors import InputError
from feduplink.federated import ComputedSchedule, Rounds, UplinkRules, find_access_scheme
from feduplink.federated.uplink.access import compare_rounds
from feduplink.federated.uplink.rounds import RoundCosts, rounds_on
from feduplink.federated.uplink.schedules import uploads_of
from feduplink.link import Schedule
from feduplink.policies import default_policies, make_policies
from feduplink.registry import ACCESS_SCHEMES
from feduplink.scheduling import bound_front, find_front
from feduplink.storage.run_directory import output_directory
from feduplink.workflows.schedule_files import SCHEDULES_FILE, cost_table, write_schedules


def run(args: argparse.Namespace) -> None:
    """Schedule, compare, write everything to --out and say what was found."""
    directory = output_directory(args)
    scenario, channels = channels_from(args)
    delivery = delivery_from(args, scenario)
    if args.budget > 0 and delivery != 1.0:
        raise InputError("budget: accepted only with everyone in every round, --delivery 1.")
    rounds = rounds_on(channels.test, scenario, seed=args.seed)
    rules = UplinkRules(scenario, scenario.model_bits(args.model_weights))
    names = default_policies() if args.policies is None else args.policies
    policies = make_policies(names, scenario, channels=channels, seed=args.seed) if names else {}
    costs = {name: [cost] for name, cost in compare_rounds(policies, rounds, rules).items()}
    for name in _priced_schemes():
        schemes = {
            f"{name} {kappa:g}": find_access_scheme(name, seconds_per_joule=kappa)
            for kappa in args.kappa
        }
        costs[name] = list(compare_rounds(schemes, rounds, rules).values())
    if delivery == 1.0:
        schedules, bounds = _everyone(args.kappa, rounds, rules, args.budget)
    else:
        schedules = {
            kappa: ComputedSchedule(kappa, delivery, scenario, channels).schedules(
                rounds.observed, rounds.present, rules
            )
            for kappa in args.kappa
        }
        bounds = {}
    costs[ComputedSchedule.name] = [
        RoundCosts.from_uploads(uploads_of(schedule, rounds, rules), kappa)
        for kappa, schedule in schedules.items()
    ]
    table = cost_table(costs, bounds, _notes(channels, args.delivery))
    write_schedules(
        directory,
        scenario,
        costs,
        bounds,
        schedules,
        shown=args.kappa[len(args.kappa) // 2],
        table=table,
        seed=args.seed,
        delivery=args.delivery,
        model_bits=rules.bits.tolist(),
        notes=channels.notes,
        channels=channels.as_metrics(),
    )
    out = console()
    out.print(channels.headline(channels.test))
    out.print(terminal_table(table))
    out.print(
        f"schedule.md, front.png, timeline.png, {SCHEDULES_FILE}, metrics.json in {directory}"
    )


def _priced_schemes() -> list[str]:
    """Other access schemes that choose their powers by κ: a point for each of them."""
    found = {name: find_access_scheme(name) for name in ACCESS_SCHEMES.names()}
    return [
        name
        for name, scheme in found.items()
        if hasattr(scheme, "seconds_per_joule") and name != ComputedSchedule.name
    ]


def _everyone(
    kappas: Sequence[float], rounds: Rounds, rules: UplinkRules, budget_s: float
) -> tuple[dict[float, Schedule], dict[float, float]]:
    """Schedules by κ, and what the mean cost of any is at least on these channels."""
    scenario, bits = rules.scenario, rules.bits
    bounds: dict[float, float] = {}
    if budget_s > 0:
        proved = bound_front(scenario, rounds.csi, bits, kappas, gap=GAP, budget_s=budget_s)
        bounds = {k: float(p.lower.mean()) for k, p in zip(kappas, proved, strict=True)}
        if scenario.csi_noise == 0:
            found = [p.solution.schedule for p in proved]
            return dict(zip(kappas, found, strict=True)), bounds
    solutions = find_front(scenario, rounds.observed, bits, kappas)
    return {k: s.schedule for k, s in zip(kappas, solutions, strict=True)}, bounds


def _notes(channels: Channels, delivery: Sequence[float]) -> list[str]:
    """What a reader of the table has to know."""
    notes = [
        *channels.notes,
        "κ: how many seconds a joule is worth; rows without one do not depend on it",
        "arrivals: mean number of models that arrive per round",
    ]
    if any(rate < 1 for rate in delivery):
        rates = ", ".join(f"{rate:g}" for rate in delivery)
        notes.append(f"schedule: every worker delivers in a share {rates} of the rounds")
    return notes
