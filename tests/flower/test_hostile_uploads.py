"""What a node of a Flower run may send instead of a model: it is left out, and the run goes on."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from quadratic_app import client_app as quadratic
from quadratic_app.server_app import first_model

from feduplink import FullPower, Scenario
from feduplink.federated import Ideal
from feduplink.flower import TaskResult, TaskRun, WirelessGrid, worker_mod
from feduplink.flower import client_app as task_client
from feduplink.flower.server_app import app as task_server

from .in_process_grid import InProcessGrid

WORKERS, LIAR = 3, 1
Lie = Callable[[RecordDict], None]


def with_array(change: Callable[[Array], Array]) -> Lie:
    """The first array of the upload is another."""

    def lie(content: RecordDict) -> None:
        record = content.array_records["arrays"]
        name = next(iter(record))
        record[name] = change(record[name])

    return lie


def with_value(value: float) -> Lie:
    def change(array: Array) -> Array:
        values = array.numpy().copy()
        values.flat[-1] = value
        return Array(values)

    return with_array(change)


def header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def raw(data: bytes, shape: tuple[int, ...] = (3,), kind: str = "numpy.ndarray") -> Lie:
    return with_array(lambda array: Array("float64", shape, kind, data))


def with_metrics(**metrics: Any) -> Lie:
    def lie(content: RecordDict) -> None:
        content.metric_records["metrics"].update(
            {name.replace("_", "-"): value for name, value in metrics.items()}
        )

    return lie


#: Whatever the strategy, no model is in these.
BROKEN: dict[str, Lie] = {
    "a NaN": with_value(math.nan),
    "an infinity": with_value(-math.inf),
    "no array": raw(b"nothing"),
    "an empty one": raw(b""),
    "a cut one": with_array(lambda a: Array(a.dtype, a.shape, a.stype, a.data[:-1])),
    "more than it says": with_array(lambda a: Array(a.dtype, a.shape, a.stype, a.data + b"0")),
    "a terabyte that is not there": raw(header("(125000000000,)"), (125_000_000_000,)),
    "a shape without end": raw(header("(" * 3000)),
    "a negative shape": raw(header("(-3,)") + bytes(24), (-3,)),
    "another shape than it says": with_array(
        lambda a: Array(a.dtype, (10**15,), a.stype, a.data)
    ),
    "another type than it says": with_array(
        lambda a: Array("int64", a.shape, a.stype, a.data)
    ),
    "objects": raw(header("(3,)").replace(b"<f8", b"|O") + b"cos\nsystem\n(S'true'\ntR."),
    "text": with_array(lambda a: Array(np.full(a.shape, "x"))),
    "complex numbers": with_array(lambda a: Array(a.numpy() * 1j)),
    "another way to pack": raw(b"", kind="pickle"),
}  # fmt: skip
#: No model of the task is in these either.
UNFIT: dict[str, Lie] = {
    "no arrays": lambda content: content.pop("arrays"),
    "no metrics": lambda content: content.pop("metrics"),
    "two models": lambda content: content.update(more=ArrayRecord({"a": Array(np.ones(2))})),
    "more metrics": lambda content: content.update(more=MetricRecord({"loss": 0.5})),
    "an array less": lambda content: content.array_records["arrays"].popitem(),
    "an array more": lambda content: content.array_records["arrays"].update(
        more=Array(np.ones(2))
    ),
    "another shape": with_array(lambda a: Array(np.ones((1,), np.float32))),
    "wider numbers": with_array(lambda a: Array(a.numpy().astype(np.float64))),
    "whole numbers": with_array(lambda a: Array(np.ones(a.shape, np.int64))),
    "examples that are no number": with_metrics(num_examples=math.nan),
    "endless examples": with_metrics(num_examples=math.inf),
    "more examples than there are": with_metrics(num_examples=10**15),
    "no examples": with_metrics(num_examples=0),
    "fewer": with_metrics(num_examples=-7),
    "lists of examples": with_metrics(num_examples=[1, 2]),
    "a metric more": with_metrics(loss=0.5),
}  # fmt: skip


def lying(train: Callable[[Message, Context], Message], lie: Lie) -> ClientApp:
    """A client of which worker 1 sends something else from the second round on."""

    def tampered(message: Message, context: Context) -> Message:
        reply = train(message, context)
        second = message.content.config_records["config"]["server-round"] > 1
        if context.node_config["partition-id"] == LIAR and second:
            lie(reply.content)
        return reply

    app = ClientApp(mods=[worker_mod])
    app.train()(tampered)
    return app


def federated(app: ClientApp, fails: bool = False) -> tuple[np.ndarray[Any, Any], WirelessGrid]:
    """Three rounds of Flower's own strategy; ``fails``: worker 1 fails from the second on."""
    grid = InProcessGrid(
        app, WORKERS, fails=lambda worker, exchange: fails and worker == LIAR and exchange > 1
    )
    uplink = WirelessGrid(grid, Scenario(workers=WORKERS), Ideal(), rounds=3)
    result = FedAvg(fraction_evaluate=0.0).start(uplink, first_model(), num_rounds=3)
    assert result.arrays is not None
    return result.arrays["weights"].numpy(), uplink


@pytest.mark.parametrize("lie", BROKEN.values(), ids=list(BROKEN))
def test_any_strategy_goes_on_without_what_is_no_model(lie: Lie, caplog):
    expected, alone = federated(lying(quadratic.train, lambda content: None), fails=True)
    with caplog.at_level(logging.INFO, "flwr"):
        found, uplink = federated(lying(quadratic.train, lie))
    assert (found == expected).all()
    assert uplink.history == alone.history
    assert [r.present for r in uplink.history] == [(0, 1, 2), (0, 2), (0, 2)]
    assert sum("the upload of worker 1 is left out" in message for message in caplog.messages) == 2


def test_who_says_that_it_did_not_train_goes_over_the_air_all_the_same():
    def another_type(asked: Message, context: Context, call_next: Any) -> Message:
        reply = call_next(asked, context)
        reply.metadata.message_type = "query"
        return reply

    app = ClientApp(mods=[another_type, worker_mod])
    app.train()(quadratic.train)
    cell = Scenario(workers=WORKERS)
    grid = WirelessGrid(
        InProcessGrid(app, WORKERS), cell, FullPower(cell), rounds=1, deadline_s=1e-6
    )
    FedAvg(fraction_evaluate=0.0).start(grid, first_model(), num_rounds=1)
    assert grid.history[0].present == (0, 1, 2)
    assert grid.history[0].arrived == ()


def test_uploads_without_arrays_cost_next_to_nothing():
    def nothing(message: Message, context: Context) -> Message:
        return Message(RecordDict(), reply_to=message)

    app = ClientApp(mods=[worker_mod])
    app.train()(nothing)
    cell = Scenario(workers=WORKERS)
    grid = WirelessGrid(InProcessGrid(app, WORKERS), cell, FullPower(cell), rounds=1)
    messages = FedAvg().configure_train(1, first_model(), ConfigRecord(), grid)
    replies = grid.send_and_receive(messages)
    (found,) = grid.history
    assert 0 < found.airtime_s < 0.01
    assert found.sent_bytes == 4 * WORKERS  # one number each
    assert len(replies) == len(found.arrived)


def run_task(app: ClientApp, out: Path, fails: bool = False) -> TaskResult:
    run = TaskRun(scenario=Scenario(workers=WORKERS), policy="ideal", rounds=3, out=out)
    config = run.run_config()
    grid = InProcessGrid(
        app,
        WORKERS,
        config,
        lambda worker, exchange: fails and worker == LIAR and exchange > 1,
    )
    task_server(grid, Context(1, 1, {}, RecordDict(), config))
    return TaskResult.read(out)


@pytest.fixture(scope="module")
def without_the_liar(tmp_path_factory: pytest.TempPathFactory) -> TaskResult:
    app = lying(task_client.train, lambda content: None)
    return run_task(app, tmp_path_factory.mktemp("alone"), fails=True)


@pytest.mark.parametrize("lie", (BROKEN | UNFIT).values(), ids=list(BROKEN | UNFIT))
def test_a_task_goes_on_without_what_is_not_its_model(
    lie: Lie, without_the_liar: TaskResult, tmp_path: Path
):
    found = run_task(lying(task_client.train, lie), tmp_path)
    for name, expected in without_the_liar.model.items():
        assert (found.model[name] == expected).all()
    (ours,), (theirs,) = (
        next(iter(result.history.policies.values())) for result in (found, without_the_liar)
    )
    assert ours.error == theirs.error
