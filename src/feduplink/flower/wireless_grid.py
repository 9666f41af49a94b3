"""A wireless uplink between Flower's nodes and any strategy.

What the nodes send after training goes over the air before the strategy sees it; evaluation and
queries pass untouched, as does all that the server sends: downlink and control traffic is small,
or sent at a power that is not the workers' to save.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from flwr.app import Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from torch import Tensor

from feduplink.errors import InputError
from feduplink.federated.uplink.access import Sender, access_scheme, transmit
from feduplink.federated.uplink.rounds import Rounds, UplinkRecord, UplinkRules, everyone
from feduplink.flower.exchange import Exchange, Exchanges, round_number
from feduplink.flower.uplink_round import UplinkRound
from feduplink.flower.upload_arrays import fault_of_arrays
from feduplink.flower.worker_mod import is_training, take_worker
from feduplink.scenario import Scenario
from feduplink.settings import PacketSuccess

if TYPE_CHECKING:
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.supercore.run import Run

_LOG = logging.getLogger("flwr")

#: Shortest and longest time between two looks for replies, s.
_LOOK_EVERY_S = 0.1, 3.0
#: Flower's code of an error that is none of its own.
_UNKNOWN = 0


class WirelessGrid(Grid):
    """A Flower grid whose replies to training messages are uploads over a simulated radio.

    In every round the channels are those of the local engine with the same seed; the policy or
    access scheme says who sends at which power, and uploads that do not arrive are left out of the
    replies. Those that do come in the order of the workers, so that sums are the same in every
    run. A worker whose node is gone, failed or was not asked neither sends nor disturbs, and spends
    nothing. Replies that say that a node failed are handed on after the others, as a strategy
    expects them. The size of an upload is that of the arrays in the reply.

    Args:
        grid: Flower's, to wrap.
        scenario: the cell and its radio, with as many workers as there are nodes.
        sender: who decides on the powers, a policy or an access scheme.
        rounds: of the run, as given to ``Strategy.start``.
        seed: of channels and arrivals.
        deadline_s: end of a round on the air, s; unfinished uploads are lost. None is no deadline.
        packet_success: which SINR decides whether an upload arrives.

    Attributes:
        history: the rounds so far.

    """

    def __init__(
        self,
        grid: Grid,
        scenario: Scenario,
        sender: Sender,
        *,
        rounds: int,
        seed: int = 0,
        deadline_s: float | None = None,
        packet_success: PacketSuccess = "worst-phase",
    ) -> None:
        self._grid, self._scenario, self._scheme = grid, scenario, access_scheme(sender)
        self._rounds = Rounds.draw(scenario, everyone(rounds, scenario.workers), seed=seed, run=0)
        self._deadline_s, self._packet_success = deadline_s, packet_success
        self._weights = torch.zeros(scenario.workers, dtype=torch.float64)
        self._record: UplinkRecord | None = None
        self._exchanges, self._begun = Exchanges(), 0
        self.history: list[UplinkRound] = []

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send, wait, and return the replies that come through; at the latest after ``timeout`` s.

        Nodes that have not replied by then count as gone.
        """
        began, replies = time.monotonic(), list[Message]()
        ids, exchange = self._push(messages)
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
                # Flower's own looks every 3 s. A tenth of what was waited, so that a round of
                # short training is not mostly waiting.
                time.sleep(min(max(_LOOK_EVERY_S[0], waited / 10), _LOOK_EVERY_S[1], left))
        if exchange is None:
            return replies
        others = exchange.take(replies)
        return self._upload(exchange) + others

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Send only; the training messages of one call are one round."""
        ids, exchange = self._push(messages)
        if exchange is not None:
            self._exchanges.begin(exchange)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies so far; those to training once all of the round are there.

        All that is sent in a round is on the air together, so an upload's fate is known only
        when everybody has replied, or Flower has replied for a node that is gone.
        """
        asked = self._exchanges.missing(message_ids)
        replies = list(self._grid.pull_messages(asked)) if asked else []
        passing, complete = self._exchanges.collect(replies)
        for exchange in complete:
            passing += self._upload(exchange)
        return passing

    def _push(self, messages: Iterable[Message]) -> tuple[list[str], Exchange | None]:
        """Send; the ids, and the round that begins if any of the messages asks for training."""
        sent = list(messages)
        number = self._begin(sent)
        ids = list(self._grid.push_messages(sent))
        if number is None:
            return ids, None
        # Flower returns None for a message that it could not send, or nothing at all.
        pairs = zip(ids, sent, strict=False)
        return ids, Exchange(number, {i: m for i, m in pairs if i and is_training(m)})

    def add_metrics(self, result: Result) -> Result:
        """Add what happened on the air to the result's metrics of training, round by round.

        Also to rounds in which nothing arrived, of which the strategy has none.
        """
        metrics = result.train_metrics_clientapp
        for found in self.history:
            metrics.setdefault(found.number, MetricRecord()).update(found.metrics())
        result.train_metrics_clientapp = dict(sorted(metrics.items()))
        return result

    def _begin(self, sent: Sequence[Message]) -> int | None:
        """The round whose training begins with these messages, as they say or else by counting."""
        training = [message for message in sent if is_training(message)]
        if not training:
            return None
        number, rounds = round_number(training) or self._begun + 1, len(self._rounds.csi)
        if not self._begun < number <= rounds:
            raise InputError(
                f"server-round: training of round {number} after round {self._begun}; accepted: "
                f"one training per round, and the {rounds} rounds that the grid was made for."
            )
        self._begun = number
        return number

    def _upload(self, exchange: Exchange) -> list[Message]:
        """Of the replies of a round those that reach the strategy: by worker, then failures.

        An upload that cannot be used is that of a node that failed.
        """
        uploads: dict[int, Message] = {}
        failures: list[Message] = []
        workers = set[int]()
        for answered, reply in exchange.replies.items():
            if reply.has_error():
                failures.append(reply)
                continue
            worker = take_worker(reply)
            if worker in workers or not 0 <= worker < self._scenario.workers:
                raise InputError(
                    f"partition-id: {worker} is that of two nodes or not of the scenario; "
                    f"accepted: 0 to {self._scenario.workers - 1}, one node each."
                )
            workers.add(worker)
            if (fault := fault_of_arrays(reply.content)) is None:
                uploads[worker] = reply
            else:
                _LOG.warning("the upload of worker %d is left out: %s", worker, fault)
                failed = Message(Error(_UNKNOWN, fault), reply_to=exchange.sent[answered])
                failures.append(failed)
        record = self._transmit(exchange.number - 1, uploads)
        present = self._rounds.present[exchange.number - 1]
        self.history.append(UplinkRound.from_record(exchange.number, present, record))
        _LOG.info("%s", self.history[-1])
        return [uploads[worker] for worker in self.history[-1].arrived] + failures

    def _transmit(self, row: int, uploads: dict[int, Message]) -> UplinkRecord:
        """All rounds on the air, with what is known of row ``row``.

        A scheme decides on all rounds together, as in the local engine, with everyone present in
        those to come; again only where a round turned out otherwise.
        """
        present = torch.zeros(self._scenario.workers, dtype=torch.bool)
        weights = self._weights.clone()
        for worker, upload in uploads.items():
            present[worker], weights[worker] = True, weights_of(upload.content)
        # A worker that was never heard sends as much as the others.
        weights[weights == 0] = weights.max()
        as_assumed = torch.equal(present, self._rounds.present[row])
        if self._record is None or not as_assumed or not torch.equal(weights, self._weights):
            schedule = self._rounds.present.clone()
            schedule[row] = present
            self._rounds, self._weights = replace(self._rounds, present=schedule), weights
            self._record = transmit(self._scheme, self._rounds, self._rules(weights))
        return self._record

    def _rules(self, weights: Tensor) -> UplinkRules:
        bits = self._scenario.model_bits(weights)
        return UplinkRules(self._scenario, bits, self._deadline_s, self._packet_success)

    def set_run(self, run: Run) -> None:
        """Flower's own."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """Flower's own."""
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Flower's own."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Flower's own."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Flower's own."""
        return self._grid.get_nodes()


def weights_of(content: RecordDict) -> int:
    """How many numbers the arrays of a message hold."""
    arrays = (array for record in content.array_records.values() for array in record.values())
    return sum(math.prod(array.shape) for array in arrays)
