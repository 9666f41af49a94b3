"""Training messages that were pushed, and the replies to them that were pulled so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flwr.app import Message


@dataclass
class _Exchange:
    """One round: the ids of the messages that were sent, and the replies that have come."""

    number: int
    ids: frozenset[str]
    replies: dict[str, Message] = field(default_factory=dict)


class Exchanges:
    """Replies to training are held until all of their round have come."""

    def __init__(self) -> None:
        self._open: list[_Exchange] = []

    def begin(self, number: int, ids: Iterable[str]) -> None:
        """Messages of round ``number`` are on their way."""
        self._open.append(_Exchange(number, frozenset(ids)))

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Of these messages those whose reply is not held."""
        held = {i for exchange in self._open for i in exchange.replies}
        return [i for i in ids if i not in held]

    def collect(
        self, replies: Iterable[Message]
    ) -> tuple[list[Message], list[tuple[int, list[Message]]]]:
        """Sort replies into those to pass on, and rounds that are now complete."""
        passing = []
        for reply in replies:
            answered = reply.metadata.reply_to_message_id
            exchange = next((e for e in self._open if answered in e.ids), None)
            if exchange is None:
                passing.append(reply)
            else:
                exchange.replies[answered] = reply
        complete = [e for e in self._open if e.replies.keys() == e.ids]
        self._open = [e for e in self._open if e.replies.keys() != e.ids]
        return passing, [(e.number, list(e.replies.values())) for e in complete]


def round_number(messages: Sequence[Message]) -> int | None:
    """What the messages' configuration says under ``server-round``; None if nothing."""
    for message in messages:
        for record in message.content.config_records.values():
            if isinstance(number := record.get("server-round"), int):
                return number
    return None
