"""``feduplink serve``: powers by HTTP."""

from __future__ import annotations

import argparse
import signal
import tempfile
from pathlib import Path

from feduplink.channels import ChannelSource
from feduplink.channels.splits import CHANNELS_PER_SPLIT
from feduplink.cli.console import console
from feduplink.cli.options import (
    add_model_options,
    add_scenario_options,
    add_seed_option,
    explicit_fields,
    scenario_from,
    whole_number,
)
from feduplink.comparison import find_policies
from feduplink.errors import InputError
from feduplink.export import OnnxPolicy, export_onnx
from feduplink.policies import Deployment, NeuralPolicy, Policy
from feduplink.scenario import Scenario
from feduplink.serving.limits import Limits

NAME = "serve"
HELP = "answer CSI with powers, by HTTP"
EXAMPLE = "feduplink serve --policy pdx --interference 2 --port 8000"

_ONNX = ".onnx"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--policy",
        default="pdx",
        metavar="NAME",
        help="pdx, the directory of a training run, or an ONNX file of 'feduplink export', which "
        "starts soonest (default: pdx)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; one that other machines reach needs a token "
        "(default: 127.0.0.1)",
    )
    parser.add_argument(
        "--port",
        type=whole_number(0, 65_535),
        default=8000,
        metavar="N",
        help="port to listen on; 0: any free one (default: 8000)",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="holds the bearer token that requests need (default: that of FEDUPLINK_TOKEN)",
    )
    add_seed_option(parser)
    add_model_options(parser.add_argument_group("limits"), Limits)
    add_scenario_options(parser)


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
    channels = ChannelSource.from_scenario(scenario, CHANNELS_PER_SPLIT, seed=args.seed)
    deployment = Deployment.from_channels(scenario, channels, seed=args.seed)
    [policy] = find_policies([args.policy], deployment).values()
    console().print(f"writing {policy.name} as ONNX, which takes some seconds")
    with tempfile.TemporaryDirectory() as directory:
        exported = OnnxPolicy(export_onnx(policy, Path(directory, f"policy{_ONNX}")).file)
    return exported, [policy] if isinstance(policy, NeuralPolicy) else []
