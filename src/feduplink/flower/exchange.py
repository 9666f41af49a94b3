"""Training messages that were pushed, and the replies to them that were pulled so far.

What a reply is follows from the message that it replies to, never from what it says itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flwr.app import Message


@dataclass(frozen=True)
class Exchange:
    """One round of training.

    Attributes:
        number: of the round, from 1.
        sent: the messages by their id.
        replies: those that have come, by the id of what they reply to.

    """

    number: int
    sent: Mapping[str, Message]
    replies: dict[str, Message] = field(default_factory=dict)

    def take(self, replies: Iterable[Message]) -> list[Message]:
        """Keep the replies to this round's training; the others are returned."""
        others = []
        for reply in replies:
            answered = reply.metadata.reply_to_message_id
            if answered in self.sent:
                self.replies[answered] = reply
            else:
                others.append(reply)
        return others

    @property
    def complete(self) -> bool:
        """Whether all have replied."""
        return self.replies.keys() == self.sent.keys()


class Exchanges:
    """Replies to training are held until all of their round have come."""

    def __init__(self) -> None:
        self._open: list[Exchange] = []

    def begin(self, exchange: Exchange) -> None:
        """Its messages are on their way."""
        self._open.append(exchange)

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Of these messages those whose reply is not held."""
        held = {i for exchange in self._open for i in exchange.replies}
        return [i for i in ids if i not in held]

    def collect(self, replies: Iterable[Message]) -> tuple[list[Message], list[Exchange]]:
        """Sort replies into those to pass on, and rounds that are now complete."""
        passing = list(replies)
        for exchange in self._open:
            passing = exchange.take(passing)
        complete = [exchange for exchange in self._open if exchange.complete]
        self._open = [exchange for exchange in self._open if not exchange.complete]
        return passing, complete


def round_number(messages: Sequence[Message]) -> int | None:
    """What the messages' configuration says under ``server-round``; None if nothing."""
    for message in messages:
        for record in message.content.config_records.values():
            if isinstance(number := record.get("server-round"), int):
                return number
    return None
