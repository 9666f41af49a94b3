"""``feduplink federate``: federated learning over the uplink."""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from feduplink.channels import Channels
from feduplink.cli.channel_source import RecordedRounds, recorded_channels
from feduplink.cli.console import console
from feduplink.cli.options import explicit_fields, scenario_from
from feduplink.cli.schedule_options import delivery_from
from feduplink.cli.tables import terminal_table
from feduplink.errors import InputError
from feduplink.federated import (
    FederatedHistory,
    FederationSettings,
    Sender,
    Task,
    federate,
    find_senders,
    load_task,
    presence,
    task_options,
)
from feduplink.federated.data.partition import weighed_by_noise
from feduplink.federated.uplink.access import any_cell
from feduplink.policies import Policy
from feduplink.policies.store import default_policies, made_for, made_for_sentence
from feduplink.registry import ACCESS_SCHEMES
from feduplink.scenario import Scenario
from feduplink.storage.run_directory import check_beginning, output_directory, resume_hint
from feduplink.validation import usable_device
from feduplink.workflows.federated_files import write_federated

CHECKPOINT_FILE = "federated.safetensors"

#: The target of the costs, if none is given: the best final error and this much of it.
_TARGET_SLACK = 1.2


def run(args: argparse.Namespace) -> None:
    """Federate, then write plots, table and ``metrics.json``."""
    directory = output_directory(args)
    if args.engine == "flower":
        _check_flower_options(args)
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
            history = _federate_with_flower(args, policies, scenario)
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


def _check_flower_options(args: argparse.Namespace) -> None:
    """Refuse options that the Flower engine does not have, and a missing installation of Flower."""
    defaults = FederationSettings()
    refused = {
        "runs": args.runs != 1 and "1",
        "aggregation": args.aggregation != defaults.aggregation and defaults.aggregation,
        "present": args.present is not None and "all workers in every round",
        "channels": args.channels is not None and "channels drawn from the scenario",
        "device": args.device != "cpu" and "cpu",
        "resume": args.resume and "a comparison from its beginning",
        "checkpoint-every": args.checkpoint_every != defaults.checkpoint_every and "no checkpoints",
    }
    for option, accepted in refused.items():
        if accepted:
            raise InputError(
                f"{option}: not available with --engine flower; accepted: {accepted}, or --engine "
                "local."
            )
    importlib.import_module("feduplink.flower")  # names the extra to install if Flower is missing


def _federate_with_flower(
    args: argparse.Namespace, policies: Mapping[str, Sender], scenario: Scenario
) -> FederatedHistory:
    from feduplink.flower import federate_with_flower  # an optional dependency

    return federate_with_flower(
        args.task,
        policies,
        scenario,
        rounds=args.rounds,
        seed=args.seed,
        partition=args.partition,
        data=args.data,
        kappa=args.kappa,
        delivery=args.delivery,
        deadline_s=args.deadline,
        packet_success=args.packet_success,
        imports=args.imported,
    )


def _scenario_and_recording(args: argparse.Namespace) -> tuple[Scenario, Channels | None]:
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
    if args.policies is None:
        return [*ACCESS_SCHEMES.shipped, *default_policies()]
    names: list[str] = args.policies
    return names


def _policies(
    args: argparse.Namespace, scenario: Scenario, recording: Channels | None
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
