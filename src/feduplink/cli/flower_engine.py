"""``feduplink federate --engine flower``: the same comparison, as runs of a Flower deployment."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from feduplink.errors import InputError
from feduplink.federated import FederatedHistory, FederationSettings, Sender
from feduplink.policies import Policy, save_policy
from feduplink.scenario import Scenario

#: A SuperNode that dies is announced at once; this is for one that lives and does not answer, s.
_ROUND_WITHIN_S = 3600.0


def check_flower_options(args: argparse.Namespace) -> None:
    """Refuse what the Flower engine does not do, and say so if Flower is not installed."""
    defaults = FederationSettings()
    refused = {
        "runs": args.runs != 1 and "1",
        "aggregation": args.aggregation != defaults.aggregation and defaults.aggregation,
        "present": args.present is not None and "all workers, always",
        "channels": args.channels is not None and "channels that the scenario draws",
        "device": args.device != "cpu" and "cpu",
        "resume": args.resume and "a comparison from its beginning",
        "checkpoint-every": args.checkpoint_every != defaults.checkpoint_every and "no checkpoints",
        "import": bool(args.imported) and "what is yours as package.module:Object",
    }
    for option, accepted in refused.items():
        if accepted:
            raise InputError(
                f"{option}: not what --engine flower does; accepted: {accepted}, or --engine local."
            )
    importlib.import_module("feduplink.flower")  # says which extra to install if Flower is missing


def federate_with_flower(
    args: argparse.Namespace,
    policies: Mapping[str, Sender],
    names: Sequence[str],
    scenario: Scenario,
    rounds: int,
) -> FederatedHistory:
    """Run every policy on one SuperLink with one SuperNode per worker, all on this machine.

    Policies are tuned here, as for the local engine, and handed over as files in the deployment's
    directory, of which nothing is left when this ends, whatever ends it.
    """
    # An optional dependency: only who asks for Flower needs it.
    from feduplink.flower.loopback_federation import federate_on_loopback, loopback_deployment
    from feduplink.flower.task_run import TaskRun

    with loopback_deployment(scenario.workers) as deployment:
        directory = deployment.directory / "policies"
        runs = {
            label: TaskRun(
                scenario=scenario,
                task=args.task,
                policy=_handed_over(label, policy, names, directory / str(number)),
                rounds=rounds,
                seed=args.seed,
                partition=args.partition,
                data=args.data and args.data.absolute(),
                kappa=args.kappa,
                delivery=",".join(map(str, args.delivery)),
                deadline=args.deadline,
                packet_success=args.packet_success,
                timeout=_ROUND_WITHIN_S,
                out=directory,
            )
            for number, (label, policy) in enumerate(policies.items())
        }
        return federate_on_loopback(deployment, runs)


def _handed_over(label: str, policy: Sender, names: Sequence[str], path: Path) -> str:
    """What another process finds the policy or access scheme by.

    Loading a file never imports code, so a policy of the user's own class goes by its name.
    """
    if not isinstance(policy, Policy):
        return label
    for name in names:
        if ":" in name and not Path(name).exists() and policy.registered_name == name:
            return name
    save_policy(policy, path)
    return str(path)
