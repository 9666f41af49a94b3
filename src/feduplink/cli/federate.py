"""``feduplink federate``: federated learning over the uplink."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Mapping
from typing import Any, get_args

from torch import Tensor

from feduplink.channels import ChannelSource
from feduplink.cli.channel_source import RecordedRounds, add_channels_option, recorded_channels
from feduplink.cli.console import console
from feduplink.cli.flower_engine import check_flower_options, federate_with_flower
from feduplink.cli.options import (
    add_common_options,
    add_data_option,
    add_device_option,
    add_scenario_options,
    explicit_fields,
    names_listed,
    non_negative_number,
    output_directory,
    positive_number,
    scenario_from,
    whole_number,
)
from feduplink.cli.resuming import check_beginning, resume_hint
from feduplink.cli.schedule_options import add_delivery_option, delivery_from
from feduplink.cli.tables import terminal_table
from feduplink.comparison import default_policies
from feduplink.device import usable_device
from feduplink.errors import InputError
from feduplink.federated import (
    FederatedHistory,
    FederationSettings,
    Partition,
    Sender,
    Task,
    federate,
    find_senders,
    load_task,
    presence,
    task_options,
)
from feduplink.federated.partition import weighed_by_noise
from feduplink.federated.senders import any_cell
from feduplink.federated.uplink import PacketSuccess
from feduplink.made_for import made_for, made_for_sentence
from feduplink.policies import Policy
from feduplink.registry import ACCESS_SCHEMES, AGGREGATIONS, POLICIES, TASKS
from feduplink.report.federated_files import write_federated
from feduplink.scenario import Scenario

NAME = "federate"
HELP = "train a federated model over the uplink and compare policies by error, time and energy"
EXAMPLE = "feduplink federate --task digits --policies ideal,max,openloop --runs 2"

CHECKPOINT_FILE = "federated.safetensors"

#: The target of the costs, if none is given: the best final error and this much of it.
_TARGET_SLACK = 1.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--task",
        default="digits",
        metavar="NAME",
        help=f"any of {', '.join(TASKS.names())}, or package.module:function "
        "(default: %(default)s)",
    )
    default = (*ACCESS_SCHEMES.shipped, *default_policies())
    names = (*ACCESS_SCHEMES.names(), *POLICIES.names())
    parser.add_argument(
        "--policies",
        default=",".join(default),
        metavar="NAME[,NAME...]",
        help=f"any of {', '.join(names)}, package.module:Class of your own, and directories of "
        f"training runs (default: {','.join(default)})",
    )
    parser.add_argument(
        "--kappa",
        type=non_negative_number,
        default=0.0,
        metavar="S/J",
        help="seconds that one joule is worth to tdma, ofdma, fixed-power and schedule, which "
        "choose their powers by it; 0 is as fast as they can (default: 0)",
    )
    add_delivery_option(parser)
    add_common_options(parser, NAME)
    parser.add_argument(
        "--engine",
        choices=("local", "flower"),
        default="local",
        help="where workers are trained: in this process, or as SuperNodes of a Flower deployment "
        "on this machine, a process each (default: local)",
    )
    parser.add_argument(
        "--runs",
        type=whole_number(1, 10_000),
        default=1,
        metavar="N",
        help="independent repetitions (default: 1)",
    )
    parser.add_argument(
        "--rounds", type=whole_number(1, 10**6), metavar="N", help="(default: the task's)"
    )
    parser.add_argument(
        "--partition",
        metavar="NAME",
        help=f"how a task spreads its data; images: any of {', '.join(get_args(Partition))}, that "
        "is alike, with pixel noise, or with skewed labels (default: iid)",
    )
    parser.add_argument(
        "--aggregation",
        default="exact",
        metavar="NAME",
        help=f"the server's average: any of {', '.join(AGGREGATIONS.names())}, or "
        "package.module:Class; 'unbiased' weighs by 1/PSR, 'published' has the slips of the "
        "paper's code and only serves to show them (default: %(default)s)",
    )
    parser.add_argument(
        "--deadline",
        type=positive_number,
        metavar="S",
        help="longest round in seconds; what is not sent by then is lost (default: none)",
    )
    parser.add_argument(
        "--packet-success",
        choices=get_args(PacketSuccess),
        default="worst-phase",
        help="the SINR that decides whether an upload arrives: with all senders on the air, as in "
        "the paper, or of every phase, by the bits sent in it (default: worst-phase)",
    )
    parser.add_argument(
        "--present",
        metavar="ROUND:WORKERS[;...]",
        help="workers that leave and join: from a round on, those listed, both counted from 0, as "
        "in '20:0,1,2;60:0,1,2,3' (default: all workers, always)",
    )
    parser.add_argument(
        "--target",
        type=positive_number,
        metavar="ERROR",
        help="error that time and energy are counted to (default: the best final error plus 20 %%)",
    )
    add_channels_option(
        parser,
        "policies are tuned on the first; the third are the channels of the rounds, in their "
        "order, run after run",
    )
    parser.add_argument(
        "--resample-channels",
        action="store_true",
        help="draw the rounds' channels from the test channels of --channels at random, with "
        "replacement: for more rounds than there are channels",
    )
    add_data_option(parser)
    add_device_option(parser)
    parser.add_argument(
        "--checkpoint-every",
        type=whole_number(1, 10**6),
        default=10,
        metavar="N",
        help="rounds between checkpoints (default: 10)",
    )
    parser.add_argument("--resume", action="store_true", help="continue the comparison in --out")
    add_scenario_options(parser)


def run(args: argparse.Namespace) -> None:
    """Federate, then write plots, table and ``metrics.json``."""
    directory = output_directory(args)
    if args.engine == "flower":
        check_flower_options(args)
    usable_device(args.device)
    checkpoint = directory / CHECKPOINT_FILE
    check_beginning(checkpoint, "a federated comparison", resume=args.resume)
    scenario, source = _scenario_and_recording(args)
    task = _task(args, scenario)
    rounds = args.rounds or task.rounds
    recorded = source and RecordedRounds.from_source(
        source, args.runs * rounds, resampled=args.resample_channels, seed=args.seed
    )
    settings = FederationSettings(
        runs=args.runs,
        rounds=rounds,
        aggregation=args.aggregation,
        deadline_s=args.deadline,
        packet_success=args.packet_success,
        present=_presence(args.present, rounds, scenario.workers),
        checkpoint_every=args.checkpoint_every,
    )
    with resume_hint(checkpoint):
        policies = _policies(args, scenario, source)
        if args.engine == "flower":
            history = federate_with_flower(args, policies, _names(args), scenario, rounds)
        else:
            history = federate(
                task,
                policies,
                scenario,
                settings,
                seed=args.seed,
                device=args.device,
                recorded=recorded.csi if recorded else None,
                checkpoint=checkpoint,
                resume=args.resume,
            )
    differences = _made_for(policies, _names(args), scenario, recorded=recorded is not None)
    notes = recorded.notes if recorded else []
    target = args.target if args.target is not None else default_target(history)
    write_federated(
        directory,
        history,
        target,
        scenario=scenario.model_dump(mode="json"),
        seed=args.seed,
        engine=args.engine,
        partition=args.partition or task_options(args.task).get("partition"),
        aggregation=args.aggregation,
        kappa_s_per_j=args.kappa,
        delivery=args.delivery,
        deadline_s=args.deadline,
        packet_success=args.packet_success,
        present=args.present,
        made_for=differences,
        notes=[
            *notes,
            *(made_for_sentence(name, differs) for name, differs in differences.items()),
        ],
        **({"channels": recorded.as_metrics()} if recorded else {}),
    )
    out = console()
    out.print(terminal_table(history.table(target)))
    for note in notes:
        out.print(note)
    out.print(f"federated.md, error.png, arrivals.png, metrics.json in {directory}")


def _scenario_and_recording(args: argparse.Namespace) -> tuple[Scenario, ChannelSource | None]:
    if args.channels:
        return recorded_channels(args, _scenario)
    if args.resample_channels:
        raise InputError("resample-channels: accepted only with --channels FILE.")
    return _scenario(args), None


def _scenario(args: argparse.Namespace, **fixed: Any) -> Scenario:
    scenario = scenario_from(args, lambda found: _task(args, found).weights, **fixed)
    asked = "weights" in explicit_fields(args, Scenario)
    if args.partition == "gaussian" and scenario.weights == "data" and not asked:
        return weighed_by_noise(scenario)
    return scenario


def _task(args: argparse.Namespace, scenario: Scenario) -> Task:
    return load_task(
        args.task, workers=scenario.workers, partition=args.partition, directory=args.data
    )


def _names(args: argparse.Namespace) -> list[str]:
    return names_listed(args.policies)


def _policies(
    args: argparse.Namespace, scenario: Scenario, recording: ChannelSource | None
) -> dict[str, Sender]:
    return find_senders(
        _names(args),
        scenario,
        seed=args.seed,
        seconds_per_joule=args.kappa,
        delivery=delivery_from(args, scenario),
        recording=recording,
    )


def _made_for(
    policies: Mapping[str, Sender],
    built_in: Collection[str],
    scenario: Scenario,
    *,
    recorded: bool,
) -> dict[str, dict[str, tuple[Any, Any]]]:
    """In what policies that are not ``built_in`` were made for another scenario, by name."""
    found = {
        name: made_for(policy, any_cell(scenario), recorded=recorded)
        for name, policy in policies.items()
        if isinstance(policy, Policy) and name not in built_in
    }
    return {name: differences for name, differences in found.items() if differences}


def _presence(text: str | None, rounds: int, workers: int) -> Tensor | None:
    if text is None:
        return None
    try:
        entries = [entry.split(":") for entry in text.split(";")]
        changes = {int(start): {int(w) for w in listed.split(",")} for start, listed in entries}
        if len(changes) < len(entries):
            raise ValueError("a round is listed twice")
    except ValueError:
        changes = {-1: set()}
    if not all(0 <= start < rounds for start in changes) or not all(
        0 <= worker < workers for listed in changes.values() for worker in listed
    ):
        raise InputError(
            f"present: {text!r} is not accepted; accepted: ROUND:WORKER,WORKER;... with rounds "
            f"from 0 to {rounds - 1} and workers from 0 to {workers - 1}."
        )
    return presence(rounds, workers, changes)


def default_target(history: FederatedHistory) -> float:
    """The error that costs are counted to, if none is given.

    If every model diverged it is 0, which none of them reached.
    """
    errors = (history.final_error(name) for name in history.policies)
    return _TARGET_SLACK * min((error for error in errors if math.isfinite(error)), default=0.0)
