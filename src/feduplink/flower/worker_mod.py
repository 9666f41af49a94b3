"""How a node says which worker it is: a Flower mod on the client, read and removed by the grid.

Node ids are new in every run, so the worker's index is the node's ``partition-id``, which
``flower-supernode --node-config "partition-id=0"`` sets and Flower's simulation sets by itself.
"""

from __future__ import annotations

from flwr.app import ConfigRecord, Context, Message, MessageType
from flwr.clientapp.typing import ClientAppCallable

from feduplink.errors import InputError

#: Where the index stands in a reply, and under which key. Not a metric: strategies average those.
_RECORD, _KEY = "feduplink.worker", "partition-id"


def worker_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Add the worker's index to what a node sends after training.

    ``ClientApp(mods=[worker_mod])`` is all that a client needs to send over the wireless uplink.
    """
    reply = call_next(message, context)
    if is_training(message) and reply.has_content():
        reply.content[_RECORD] = ConfigRecord({_KEY: worker_index(context)})
    return reply


def worker_index(context: Context) -> int:
    """The index of this node's worker, from 0."""
    index = context.node_config.get(_KEY)
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise InputError(
            f"{_KEY}: {index!r} in the node's configuration; accepted: the worker's index from 0, "
            f'as in flower-supernode --node-config "{_KEY}=0".'
        )
    return index


def is_training(message: Message) -> bool:
    """Whether a message, or what it replies to, asks for training: ``train`` or ``train.X``."""
    return message.metadata.message_type.split(".")[0] == MessageType.TRAIN


def take_worker(reply: Message) -> int:
    """Remove the index from a reply and return it."""
    record = reply.content.config_records.get(_RECORD, ConfigRecord())
    index = record.get(_KEY)
    if not isinstance(index, int) or isinstance(index, bool):
        raise InputError(
            f"worker: the reply of node {reply.metadata.src_node_id} does not say which it is; "
            "accepted: replies of a ClientApp(mods=[feduplink.flower.worker_mod])."
        )
    del reply.content[_RECORD]
    return index
