"""A Flower grid whose nodes are calls of a ClientApp in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class InProcessGrid(Grid):
    """Node ids are unlike the workers' indices, and replies come in the order of the ids.

    Args:
        app: runs on every node.
        workers: L.
        run_config: of the run.
        fails: of a worker and the number of the exchange, from 1, whether its node fails there.

    """

    def __init__(
        self,
        app: ClientApp,
        workers: int,
        run_config: dict[str, Any] | None = None,
        fails: Callable[[int, int], bool] = lambda worker, exchange: False,
    ) -> None:
        # Flower's runtimes set these, without which no message can be made; nothing public does.
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.app, self.fails, self.exchanges = app, fails, 0
        self.workers = {1000 - 7 * worker: worker for worker in range(workers)}
        self.contexts = {
            node: Context(1, node, {"partition-id": worker}, RecordDict(), run_config or {})
            for node, worker in self.workers.items()
        }
        self.pushed: dict[str, Message] = {}
        self._ids = itertools.count()

    def set_run(self, run: Any) -> None:
        self._run = run

    @property
    def run(self) -> Any:
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        return sorted(self.workers)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            ids.append(f"message-{next(self._ids)}")
            message.metadata.__dict__["_message_id"] = ids[-1]
            self.pushed[ids[-1]] = message
        self.exchanges += bool(ids)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Every message can be pulled once."""
        taken = [self.pushed.pop(asked) for asked in message_ids]
        return [self._reply(m) for m in sorted(taken, key=lambda m: m.metadata.dst_node_id)]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        if self.fails(self.workers[node], self.exchanges):
            return Message(Error(code=1, reason="the node failed"), reply_to=message)
        return self.app(message, self.contexts[node])
