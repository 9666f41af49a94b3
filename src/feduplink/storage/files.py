"""Files that are either complete or not there, and directories that one command writes to."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from feduplink.errors import InputError

#: What the names of files that are being written end with.
UNFINISHED = ".feduplink-unfinished"
#: Whoever writes to a file touches it more often than this, s.
_ABANDONED_AFTER_S = 3600.0


@contextlib.contextmanager
def replaced_atomically(path: Path) -> Iterator[Path]:
    """Give a temporary name beside ``path``; on success it is renamed to ``path``.

    If the block raises, the temporary file goes and ``path`` stays as it was. A process that is
    killed leaves it behind; it goes when ``path`` is next written to, or with what else is
    unfinished in a directory when :func:`only_writer` takes hold of it. The content is on the disk
    before it has the name: after a power failure, too, ``path`` is either the old or the new file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=UNFINISHED, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        _flush(temporary)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = str(path)  # the name that the caller knows
        raise
    with contextlib.suppress(OSError):  # not every file system does this for directories
        _flush(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with replaced_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` as indented JSON, atomically. NaN is refused: it is no JSON."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def read_limited(path: Path, what: str, most_bytes: int) -> bytes:
    """The content of a file that :func:`check_regular` accepts."""
    check_regular(path, what, most_bytes)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{what}: {path} cannot be read: {error.strerror}.") from None


def check_regular(path: Path, what: str, most_bytes: int | None = None) -> None:
    """Refuse as ``what``, before it is opened, what is absent, no regular file, or too large.

    A pipe or a device would be waited for, a large file fill the memory.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        raise InputError(f"{what}: {path} does not exist.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{what}: {path} cannot be read: {reason}.") from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{what}: {path} is no regular file; accepted: a file.")
    if most_bytes is not None and found.st_size > most_bytes:
        raise InputError(
            f"{what}: {path} has {found.st_size} bytes; accepted: no more than {most_bytes}."
        )


@contextlib.contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Hold ``directory`` while the block writes to it; a second process is refused.

    It is made if it is not there, and goes again if nothing was written to it. What writes that
    were killed left in it and below it goes. The lock is advisory and ends with the process,
    whatever ends it.
    """
    if directory.exists() and not directory.is_dir():
        raise InputError(f"out: {directory} is a file; accepted: a directory, new or existing.")
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(handle, directory)
        for unfinished in directory.rglob(f".*{UNFINISHED}"):
            unfinished.unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):  # the first that is not empty
            for path in made:
                path.rmdir()


def _lock(handle: int, directory: Path) -> None:
    import fcntl  # Unix alone has it, and files are written everywhere

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"out: another process is writing to {directory}; accepted: another directory, or the "
            "same one when that has ended."
        ) from None
    except OSError as error:
        warnings.warn(
            f"out: {directory} cannot be locked ({error.strerror}); see to it that no other "
            "command writes to it",
            stacklevel=4,
        )


def _remove_abandoned(path: Path) -> None:
    """Remove what writes of this file left that were killed."""
    for unfinished in path.parent.glob(f".{glob.escape(path.name)}.*{UNFINISHED}"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - unfinished.stat().st_mtime > _ABANDONED_AFTER_S:
                unfinished.unlink()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
