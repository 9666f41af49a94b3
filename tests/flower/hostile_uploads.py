"""Uploads of a malicious or broken node that are not a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from feduplink.flower import worker_mod

WORKERS, LIAR = 3, 1
Lie = Callable[[RecordDict], None]


def with_array(change: Callable[[Array], Array]) -> Lie:
    """Replace the first array of the upload."""

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


#: Uploads that no strategy can use.
BROKEN: dict[str, Lie] = {
    "a NaN": with_value(math.nan),
    "an infinity": with_value(-math.inf),
    "no array": raw(b"nothing"),
    "an empty one": raw(b""),
    "a cut one": with_array(lambda a: Array(a.dtype, a.shape, a.stype, a.data[:-1])),
    "more than it says": with_array(lambda a: Array(a.dtype, a.shape, a.stype, a.data + b"0")),
    "a terabyte that is not there": raw(header("(125000000000,)"), (125_000_000_000,)),
    "a shape without end": raw(header("(" * 3000)),
    "a shape beyond 64 bits": raw(header(f"({10**30},)")),
    "no type": raw(header("(3,)").replace(b"'<f8'", b"()   ") + bytes(24)),
    "an archive": raw(b"PK\x03\x04"),
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
#: Further uploads that are not a model of the task.
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
    """A client whose worker 1 tampers with its uploads from the second round on."""

    def tampered(message: Message, context: Context) -> Message:
        reply = train(message, context)
        second = message.content.config_records["config"]["server-round"] > 1
        if context.node_config["partition-id"] == LIAR and second:
            lie(reply.content)
        return reply

    app = ClientApp(mods=[worker_mod])
    app.train()(tampered)
    return app
