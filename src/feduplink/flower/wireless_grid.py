"""Simulated wireless uplink between Flower's nodes and any strategy.

On the server, :class:`WirelessGrid` wraps Flower's grid; the client uses the mod
:func:`worker_mod`. Replies to training messages are transmitted over the simulated uplink; all
other messages pass unchanged.
"""

from __future__ import annotations

import io
import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from flwr.app import (
    Array,
    ConfigRecord,
    Context,
    Error,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp.typing import ClientAppCallable
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from numpy.lib import format as npy
from torch import Tensor

from feduplink.errors import InputError
from feduplink.federated import Rounds, UplinkRecord, UplinkRules, everyone, transmit
from feduplink.policies import Policy
from feduplink.scenario import Scenario
from feduplink.settings import ArrivalRule

_LOG = logging.getLogger("flwr")

#: Minimum and maximum interval between two queries of replies, s.
_POLL_INTERVAL_S = 0.1, 3.0
#: Flower's error code for an unknown cause.
_UNKNOWN_ERROR = 0
#: Record and key of the worker's index in a reply. Strategies average metrics, so it is not one.
_WORKER_RECORD, _PARTITION_ID = "feduplink.worker", "partition-id"


@dataclass(frozen=True)
class UplinkRound:
    """Training round on the uplink.

    Attributes:
        number: number of the round, from 1.
        present: workers whose node replied with a model, (L,) bool.
        record: uploads of this round, a record of one round.
    """

    number: int
    present: Tensor
    record: UplinkRecord

    def metrics(self) -> MetricRecord:
        """Counts, airtime in s, energy in J and bytes for Flower, without undefined values."""
        counts = {
            "uplink-present": int(self.present.sum()),
            "uplink-senders": int(self.record.transmitting.sum()),
            "uplink-arrivals": int(self.record.arrived.sum()),
            "uplink-sent-bytes": round(float(self.record.sent_bytes)),
        }
        costs = {
            "uplink-airtime-s": float(self.record.airtime_s),
            "uplink-energy-j": float(self.record.energy_j),
        }
        return MetricRecord({**counts, **{n: v for n, v in costs.items() if not math.isnan(v)}})


class WirelessGrid(Grid):
    """Flower grid that transmits replies to training messages over a simulated uplink.

    Channels and random numbers of every round equal those of
    :class:`~feduplink.federated.Federation` with the same seed and number of rounds. The upload
    size is that of the arrays in the reply. The strategy receives the uploads that arrive, ordered
    by worker, followed by the replies that report a failure. A worker is absent if its node is
    disconnected, failed, received no message, or replied with unusable arrays; it then neither
    transmits nor interferes nor consumes energy.

    Args:
        grid: Flower's grid.
        scenario: the cell and its radio, with one worker per node.
        policy: policy of the workers.
        rounds: number of rounds, as given to ``Strategy.start``.
        seed: seed of channels and arrivals.
        deadline_s: deadline of a round on the uplink, s; uploads that are incomplete by then are
            lost. None: no deadline.
        packet_success: rule that decides which SINR an upload is received at.

    Attributes:
        history: rounds so far.
    """

    def __init__(
        self,
        grid: Grid,
        scenario: Scenario,
        policy: Policy,
        *,
        rounds: int,
        seed: int = 0,
        deadline_s: float | None = None,
        packet_success: ArrivalRule = "worst-phase",
    ) -> None:
        self._grid, self._scenario, self._policy = grid, scenario, policy
        self._rounds = Rounds.draw(scenario, everyone(rounds, scenario.workers), seed=seed, run=0)
        self._deadline_s, self._packet_success = deadline_s, packet_success
        self._weights = torch.zeros(scenario.workers, dtype=torch.float64)
        self._record: UplinkRecord | None = None
        self._open: list[_TrainingRound] = []
        self._last_round = 0
        self.history: list[UplinkRound] = []

    @property
    def record(self) -> UplinkRecord:
        """Uploads of all rounds so far as one record."""
        return UplinkRecord.concat([found.record for found in self.history])

    def add_metrics(self, result: Result) -> Result:
        """Add the uplink metrics of every round to the training metrics of a result.

        Args:
            result: result of the strategy, modified in place. It has no metrics of rounds without
                arrivals; these are added.

        Returns:
            The same result.
        """
        metrics = result.train_metrics_clientapp
        for found in self.history:
            metrics.setdefault(found.number, MetricRecord()).update(found.metrics())
        result.train_metrics_clientapp = dict(sorted(metrics.items()))
        return result

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send messages and wait for the replies.

        Args:
            messages: messages to nodes; the training messages are one round.
            timeout: time limit, s; nodes without a reply by then are absent. None: no limit.

        Returns:
            Uploads that arrive, failures, and replies to other messages.

        Raises:
            InputError: if the round or a worker's index is not accepted.
        """
        began, replies = time.monotonic(), list[Message]()
        ids, training = self._push(messages)
        missing = {i for i in ids if i}
        while missing:
            found = list(self._grid.pull_messages(missing))
            replies += found
            missing -= {reply.metadata.reply_to_message_id for reply in found}
            waited = time.monotonic() - began
            left = math.inf if timeout is None else timeout - waited
            if left <= 0:
                break
            if missing:
                # Flower's grid queries every 3 s. An interval of a tenth of the elapsed time adds
                # little to short rounds.
                shortest, longest = _POLL_INTERVAL_S
                time.sleep(min(max(shortest, waited / 10), longest, left))
        if training is None:
            return replies
        others = training.accept(replies)
        return self._upload(training) + others

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Send messages and return their ids; the training messages are one round."""
        ids, training = self._push(messages)
        if training is not None:
            self._open.append(training)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Return the replies received so far.

        Uploads of a round share the channel. They are therefore returned together, when all nodes
        have replied or Flower has reported them as disconnected.

        Args:
            message_ids: ids of the messages whose replies are requested.
        """
        held = {i for training in self._open for i in training.replies}
        asked = [i for i in message_ids if i not in held]
        replies = list(self._grid.pull_messages(asked)) if asked else []
        for training in self._open:
            replies = training.accept(replies)
        complete = [training for training in self._open if training.is_complete]
        self._open = [training for training in self._open if not training.is_complete]
        for training in complete:
            replies += self._upload(training)
        return replies

    def _push(self, messages: Iterable[Message]) -> tuple[list[str], _TrainingRound | None]:
        """Send messages; returns their ids, and the round if they contain training messages."""
        sent = list(messages)
        number = self._begin_round(sent)
        ids = list(self._grid.push_messages(sent))
        if number is None:
            return ids, None
        # Flower returns None or no id for a message that it could not send.
        pairs = zip(ids, sent, strict=False)
        return ids, _TrainingRound(number, {i: m for i, m in pairs if i and _is_training(m)})

    def _begin_round(self, sent: Sequence[Message]) -> int | None:
        """Number of the round that these messages start; None without training messages."""
        training = [message for message in sent if _is_training(message)]
        if not training:
            return None
        number, rounds = _server_round(training) or self._last_round + 1, len(self._rounds.csi)
        if not self._last_round < number <= rounds:
            raise InputError(
                f"server-round: training of round {number} after round {self._last_round}; "
                f"accepted: one training per round, up to round {rounds} of this grid."
            )
        self._last_round = number
        return number

    def _upload(self, training: _TrainingRound) -> list[Message]:
        """Transmit the replies of a round; returns those that arrive, then the failures."""
        uploads: dict[int, Message] = {}
        failures: list[Message] = []
        workers = set[int]()
        for answered, reply in training.replies.items():
            if reply.has_error():
                failures.append(reply)
                continue
            worker = _take_worker(reply)
            if worker in workers or not 0 <= worker < self._scenario.workers:
                raise InputError(
                    f"partition-id: {worker} is used by two nodes or is not a worker of the "
                    f"scenario; accepted: 0 to {self._scenario.workers - 1}, one node each."
                )
            workers.add(worker)
            if (error := array_error(reply.content)) is None:
                uploads[worker] = reply
            else:
                _LOG.warning("the upload of worker %d is ignored: %s", worker, error)
                failure = Message(Error(_UNKNOWN_ERROR, error), reply_to=training.sent[answered])
                failures.append(failure)
        row = training.number - 1
        record = self._transmit(row, uploads).take(slice(row, row + 1))
        self.history.append(UplinkRound(training.number, self._rounds.present[row], record))
        _LOG.info("uplink: %s", dict(self.history[-1].metrics()))
        arrived = record.arrived[0].nonzero()[:, 0].tolist()
        return [uploads[worker] for worker in arrived] + failures

    def _transmit(self, row: int, uploads: Mapping[int, Message]) -> UplinkRecord:
        """Record of all rounds, given the uploads of round ``row`` (from 0) by worker.

        As in a federation, the policy decides all rounds together. Future rounds are assumed to
        have all workers present; if a round differs, the policy decides again.
        """
        present = torch.zeros(self._scenario.workers, dtype=torch.bool)
        weights = self._weights.clone()
        for worker, upload in uploads.items():
            present[worker], weights[worker] = True, weights_of(upload.content)
        # The upload size of a worker that has never replied is assumed to be the largest one.
        weights[weights == 0] = weights.max()
        as_assumed = torch.equal(present, self._rounds.present[row])
        if self._record is None or not as_assumed or not torch.equal(weights, self._weights):
            presence = self._rounds.present.clone()
            presence[row] = present
            self._rounds, self._weights = replace(self._rounds, present=presence), weights
            rules = UplinkRules(
                self._scenario,
                self._scenario.model_bits(weights),
                self._deadline_s,
                self._packet_success,
            )
            self._record = transmit(self._policy, self._rounds, rules)
        return self._record

    # The types of a run and of a node's description are not part of Flower's public interface.
    def set_run(self, run: Any) -> None:
        """Call the wrapped grid."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """Call the wrapped grid."""
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Call the wrapped grid."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Call the wrapped grid."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        """Call the wrapped grid."""
        return self._grid.get_nodes()


@dataclass(frozen=True)
class _TrainingRound:
    """Training messages of a round, and replies received so far.

    Replies are assigned by the id of the message that they answer, not by their content.

    Attributes:
        number: number of the round, from 1.
        sent: messages by id.
        replies: replies by the id of the message that they answer.
    """

    number: int
    sent: Mapping[str, Message]
    replies: dict[str, Message] = field(default_factory=dict)

    def accept(self, replies: Iterable[Message]) -> list[Message]:
        """Store the replies to this round and return the others."""
        others = []
        for reply in replies:
            answered = reply.metadata.reply_to_message_id
            if answered in self.sent:
                self.replies[answered] = reply
            else:
                others.append(reply)
        return others

    @property
    def is_complete(self) -> bool:
        return self.replies.keys() == self.sent.keys()


def _is_training(message: Message) -> bool:
    """Whether a message has the type ``train`` or ``train.X``."""
    return message.metadata.message_type.split(".")[0] == MessageType.TRAIN


def _server_round(messages: Sequence[Message]) -> int | None:
    """Value of ``server-round`` in the messages' configuration; None if it is missing."""
    for message in messages:
        for record in message.content.config_records.values():
            if isinstance(number := record.get("server-round"), int):
                return number
    return None


def weights_of(content: RecordDict) -> int:
    """Total number of elements in all arrays of a message."""
    arrays = (array for record in content.array_records.values() for array in record.values())
    return sum(math.prod(array.shape) for array in arrays)


def worker_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Flower mod that adds the worker's index to replies to training messages.

    A client uses it by ``ClientApp(mods=[worker_mod])``. The index is the ``partition-id`` of the
    node, which Flower's Simulation runtime sets; for a SuperNode it is given by
    ``--node-config "partition-id=0"``.

    Args:
        message: message to the client.
        context: context of the node.
        call_next: next mod or the client.

    Returns:
        Reply with the worker's index.
    """
    reply = call_next(message, context)
    if _is_training(message) and reply.has_content():
        reply.content[_WORKER_RECORD] = ConfigRecord({_PARTITION_ID: worker_index(context)})
    return reply


def worker_index(context: Context) -> int:
    """Index of the node's worker, from 0.

    Raises:
        InputError: if ``partition-id`` is missing or not a non-negative integer.
    """
    index = context.node_config.get(_PARTITION_ID)
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise InputError(
            f"{_PARTITION_ID}: {index!r} is given in the node configuration; accepted: the "
            f'worker\'s index from 0, as in flower-supernode --node-config "{_PARTITION_ID}=0".'
        )
    return index


def _take_worker(reply: Message) -> int:
    """Remove the worker's index from a reply and return it."""
    record = reply.content.config_records.get(_WORKER_RECORD, ConfigRecord())
    index = record.get(_PARTITION_ID)
    if not isinstance(index, int) or isinstance(index, bool):
        raise InputError(
            f"worker: the reply of node {reply.metadata.src_node_id} has no worker index; "
            "accepted: replies of a ClientApp(mods=[feduplink.flower.worker_mod])."
        )
    del reply.content[_WORKER_RECORD]
    return index


#: Accepted kinds of NumPy types: Booleans, integers and real numbers.
_ARRAY_KINDS = "biuf"
#: Name of NumPy's format in Flower.
_NPY = "numpy.ndarray"
#: Maximum length of an array's name and of a reason in a message, in characters.
_MAX_NAME, _MAX_REASON = 60, 200


def array_error(content: RecordDict) -> str | None:
    """Check the arrays of an upload.

    Args:
        content: content of a reply.

    Returns:
        Reason why an array is unusable; None if all arrays have their declared shape and type and
        finite values.
    """
    for record in content.array_records.values():
        for name, array in record.items():
            try:
                _check_array(array)
            except Exception as error:  # NumPy raises many types for damaged headers
                reason = " ".join(str(error).split()).removesuffix(".")[:_MAX_REASON]
                return f"array {name[:_MAX_NAME]!r} cannot be used: {reason}"
    return None


def _check_array(array: Array) -> None:
    """Raise an exception if an array in ``.npy`` format is unusable."""
    if array.stype != _NPY:
        raise TypeError(f"unknown format {array.stype[:_MAX_NAME]!r}")
    stream = io.BytesIO(array.data)
    values = npy.read_array(stream, allow_pickle=False)
    if (values.shape, str(values.dtype)) != (array.shape, array.dtype) or stream.read(1):
        raise ValueError("shape, type or size differ from the declared ones")
    if values.dtype.kind not in _ARRAY_KINDS:
        raise ValueError(f"type {values.dtype} is not numeric")
    if not np.isfinite(values).all():
        raise ValueError("NaN or infinity")
