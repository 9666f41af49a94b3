"""The service's log: one JSON object per line, and nothing of headers, bodies or queries in it."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

#: Of a path in the log, characters.
_LONGEST_PATH = 200

LOGGER = logging.getLogger("feduplink.serving")


class JsonLines(logging.Formatter):
    """A record as one JSON object: ``time``, ``level``, ``event`` and the fields it was given."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def log(event: str, **fields: Any) -> None:
    """Write an event with its fields."""
    LOGGER.info(event, extra={"fields": fields})


def log_answer(method: str, path: str, status: int, seconds: float) -> None:
    """Write that a request was answered."""
    log(
        "request",
        method=method,
        path=path[:_LONGEST_PATH],
        status=status,
        ms=round(1e3 * seconds, 3),
    )


def log_to_stderr() -> None:
    """Write the service's events, and what uvicorn has to say, to standard error from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    # uvicorn's events say when it starts and stops; the service says so itself.
    for logger, level in ((LOGGER, logging.INFO), (logging.getLogger("uvicorn"), logging.WARNING)):
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
