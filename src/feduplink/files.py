"""Files that are either complete or not there."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def replaced_atomically(path: Path) -> Iterator[Path]:
    """Give a temporary name beside ``path``; on success it is renamed to ``path``.

    If the block raises, the temporary file goes and ``path`` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with replaced_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` as indented JSON, atomically. NaN is refused: it is no JSON."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
