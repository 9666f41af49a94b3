"""Atomic writing of files, size limits of reading, and directories with a single writer."""

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

#: Suffix of the names of temporary files.
UNFINISHED = ".feduplink-unfinished"
#: Age after which a temporary file is stale, in seconds.
_STALE_AFTER_S = 3600.0


@contextlib.contextmanager
def replaced_atomically(path: Path) -> Iterator[Path]:
    """Provide a temporary file beside ``path`` and rename it to ``path`` when the block succeeds.

    If the block raises, the temporary file is removed and ``path`` is not changed. That of a killed
    process is removed when ``path`` is next written to, or when :func:`only_writer` locks its
    directory. The content is flushed to the disk before it is renamed: after a power failure
    ``path`` is either the old or the new file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(path)
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
            error.filename = str(path)  # the name that the caller gave
        raise
    with contextlib.suppress(OSError):  # not every file system does this for directories
        _flush(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with replaced_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` as indented JSON, atomically. NaN is refused."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def read_limited(path: Path, what: str, max_bytes: int) -> bytes:
    """Read a file that :func:`check_regular` accepts."""
    check_regular(path, what, max_bytes)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{what}: {path} cannot be read: {error.strerror}.") from None


def check_regular(path: Path, what: str, max_bytes: int | None = None) -> None:
    """Refuse a file that is missing, not regular or too large, before it is opened.

    Reading a pipe or a device could block, and a large file fill the memory. ``what`` begins the
    message.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        raise InputError(f"{what}: {path} does not exist.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{what}: {path} cannot be read: {reason}.") from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{what}: {path} is not a regular file.")
    if max_bytes is not None and found.st_size > max_bytes:
        raise InputError(
            f"{what}: {path} has {found.st_size} bytes; accepted: no more than {max_bytes}."
        )


@contextlib.contextmanager
def reading(path: Path, what: str, problem: str, max_bytes: int) -> Iterator[None]:
    """Raise an :class:`InputError` for any exception of the block, which reads a file.

    Args:
        path: file, checked by :func:`check_regular`.
        what: begins the message.
        problem: what is wrong with a file that cannot be read, such as ``damaged``.
        max_bytes: maximum size of the file.
    """
    check_regular(path, what, max_bytes)
    try:
        yield
    except Exception as error:  # readers raise a dozen types for damaged files
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(f"{what}: {path} is {problem}: {reason}.") from None


@contextlib.contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Lock ``directory`` while the block writes to it; a second process is refused.

    The directory is created if it does not exist, and removed again if nothing was written to it.
    Temporary files of killed processes in and below it are removed. The lock is advisory and ends
    with the process.
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
        with contextlib.suppress(OSError):  # a directory that is not empty
            for path in made:
                path.rmdir()


def _lock(handle: int, directory: Path) -> None:
    import fcntl  # exists on Unix only, and files are written everywhere

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


def _remove_stale(path: Path) -> None:
    """Remove temporary files that killed processes left beside ``path``."""
    for unfinished in path.parent.glob(f".{glob.escape(path.name)}.*{UNFINISHED}"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - unfinished.stat().st_mtime > _STALE_AFTER_S:
                unfinished.unlink()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
