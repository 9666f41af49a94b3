"""``feduplink serve``: powers by HTTP."""

from __future__ import annotations

import argparse
import signal
import tempfile
from pathlib import Path

from feduplink.channels import Channels
from feduplink.cli.console import console
from feduplink.cli.options import explicit_fields, scenario_from
from feduplink.errors import InputError
from feduplink.export import OnnxPolicy, export_onnx
from feduplink.policies import NeuralPolicy, Policy, make_policy
from feduplink.scenario import Scenario
from feduplink.serving.limits import Limits
from feduplink.settings import CHANNELS_PER_SPLIT

_ONNX = ".onnx"


def run(args: argparse.Namespace) -> None:
    """Find the policy, take the address and answer until a signal comes."""
    try:
        from feduplink.serving.app import create_app
        from feduplink.serving.listening import bound_socket, find_token, listen
        from feduplink.serving.playground import playground_router
    except ModuleNotFoundError as error:
        raise InputError(
            f"serve: {error.name} is not installed; pip install 'feduplink[serve]'."
        ) from None
    limits = Limits(**explicit_fields(args, Limits))
    token = find_token(args.token_file)
    with bound_socket(args.host, args.port, token=token) as bound:
        policy, trained = _policy(args)
        name = policy.metadata["policy"]
        workers = policy.fixed_workers or "any number of"
        routers, page = [], "with the playground at /"
        try:
            routers.append(playground_router(policy.scenario, trained))
        except InputError as refusal:
            page = f"without the playground: {refusal}"
        # Of a service that stops, supervisors expect that it ends by the signal itself.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        listen(
            create_app(policy, limits=limits, token=token, routers=routers),
            bound,
            limits,
            lambda address: console().print(f"{name} for {workers} workers on {address}\n{page}"),
        )


def _policy(args: argparse.Namespace) -> tuple[OnnxPolicy, list[Policy]]:
    """The policy of ``--policy``, and itself where it has been trained and the page shows it.

    What is no ONNX file becomes one, for as long as it is read.
    """
    if args.policy.endswith(_ONNX):
        others = (args.scenario, args.time_max_s, args.energy_max_j, args.model_bits)
        if explicit_fields(args, Scenario) or any(given is not None for given in others):
            raise InputError(
                f"scenario: {args.policy} holds its own; accepted: no other with an ONNX file."
            )
        return OnnxPolicy(args.policy), []
    scenario = scenario_from(args)
    channels = Channels.from_scenario(scenario, CHANNELS_PER_SPLIT, seed=args.seed)
    policy = make_policy(args.policy, scenario, channels=channels, seed=args.seed)
    console().print(f"writing {policy.name} as ONNX, which takes some seconds")
    with tempfile.TemporaryDirectory() as directory:
        exported = OnnxPolicy(export_onnx(policy, Path(directory, f"policy{_ONNX}")).file)
    return exported, [policy] if isinstance(policy, NeuralPolicy) else []
