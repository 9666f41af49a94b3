"""Atomic writes, size limits of reads, and exclusive access to directories."""

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

    If the block raises, the temporary file is removed and ``path`` is unchanged. Temporary files of
    killed processes are removed by the next write to ``path`` or by :func:`only_writer`. The
    content is flushed to the disk before it is renamed: after a power failure ``path`` is either
    the old or the new file.

    Args:
        path: file to replace; its directory is created if necessary.

    Yields:
        Path of the temporary file.
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
            error.filename = str(path)  # instead of the name of the temporary file
        raise
    with contextlib.suppress(OSError):  # some file systems cannot flush directories
        _flush(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with replaced_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` as indented JSON, atomically; raises ``ValueError`` for NaN."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def read_limited(path: Path, what: str, max_bytes: int) -> bytes:
    """Read a regular file of limited size.

    Args:
        path: file.
        what: field or purpose of the file, at the beginning of error messages.
        max_bytes: maximum size, bytes.

    Returns:
        The content.

    Raises:
        InputError: if the file is missing, not regular, too large or not readable.
    """
    check_regular(path, what, max_bytes)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{what}: {path} cannot be read: {error.strerror}.") from None


def check_regular(path: Path, what: str, max_bytes: int | None = None) -> None:
    """Check a file before it is opened: a pipe could block, a large file exhaust the memory.

    Args:
        path: file.
        what: field or purpose of the file, at the beginning of error messages.
        max_bytes: maximum size, bytes; None: no limit.

    Raises:
        InputError: if the file is missing, not regular or too large.
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
            f"{what}: {path} has {found.st_size} bytes; accepted: at most {max_bytes}."
        )


@contextlib.contextmanager
def reading(path: Path, what: str, problem: str, max_bytes: int) -> Iterator[None]:
    """Raise an :class:`InputError` for any exception of the block, which reads a file.

    Args:
        path: file, checked by :func:`check_regular`.
        what: field or purpose of the file, at the beginning of error messages.
        problem: description of a file that cannot be read, such as ``damaged``.
        max_bytes: maximum size of the file, bytes.
    """
    check_regular(path, what, max_bytes)
    try:
        yield
    except Exception as error:  # readers raise a dozen types for damaged files
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(f"{what}: {path} is {problem}: {reason}.") from None


@contextlib.contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Lock ``directory`` during a block.

    The directory is created if it does not exist, and removed if it is empty afterwards. Temporary
    files of killed processes in and below it are removed. The lock is advisory and ends with the
    process.

    Args:
        directory: directory to lock.

    Raises:
        InputError: if it is a file, or another process has locked it.
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
        with contextlib.suppress(OSError):  # raised for a directory that is not empty
            for path in made:
                path.rmdir()


def _lock(handle: int, directory: Path) -> None:
    """Lock an open directory, or warn if the file system does not support locks."""
    import fcntl  # available on Unix only

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"out: another process is writing to {directory}; accepted: another directory, or this "
            "one after that process has ended."
        ) from None
    except OSError as error:
        warnings.warn(
            f"out: {directory} cannot be locked ({error.strerror}); make sure that no other "
            "command writes to it",
            stacklevel=4,
        )


def _remove_stale(path: Path) -> None:
    """Remove temporary files of killed processes beside ``path``."""
    for unfinished in path.parent.glob(f".{glob.escape(path.name)}.*{UNFINISHED}"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - unfinished.stat().st_mtime > _STALE_AFTER_S:
                unfinished.unlink()


def _flush(path: Path) -> None:
    """Flush a file or directory to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
