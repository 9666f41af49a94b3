"""Fetching the originals from their official homes; pooch downloads and checks them."""

from __future__ import annotations

import contextlib
import logging
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from feduplink.errors import InputError
from feduplink.federated.data.checksums import FileState, file_state, has_content
from feduplink.federated.data.data_sets import DataFile, DataSet, require
from feduplink.progress import Tracker, track

_BLOCK = 1 << 18
_TIMEOUT_S = 60


def fetch(entry: DataSet, directory: Path) -> None:
    """Bring the files of a set into ``directory``; those already intact are left alone.

    Nothing is put in place unless its checksum is right, so a broken connection or a changed
    original leaves at most fewer files, never a wrong one.
    """
    absent = [file for file in entry.files if file_state(file, directory) is not FileState.INTACT]
    if not absent:
        return
    for needed in entry.needs:
        require(needed, directory)
    directory.mkdir(parents=True, exist_ok=True)
    for file in absent:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch:
            made = _made(entry, file, Path(scratch), directory)
            target = directory / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            made.chmod(0o644)  # pooch gives its files to their owner alone
            made.replace(target)


def _made(entry: DataSet, file: DataFile, scratch: Path, directory: Path) -> Path:
    """The file in a place of its own, downloaded and if need be built; it is the right one."""
    if file.build is None:
        return _download(file.url, file.sha256, scratch)
    original = _download(file.url, file.original_sha256, scratch)
    made = scratch / "built" / Path(file.path).name
    made.parent.mkdir()
    try:
        file.build(original, made, directory)
    except (tarfile.TarError, zipfile.BadZipFile, KeyError, EOFError, ValueError) as error:
        raise InputError(f"data: what came from {file.url} is no {entry.name}: {error}.") from None
    if not has_content(made, file.sha256):
        raise InputError(
            f"data: {file.path} built from {file.url} does not have the expected checksum; "
            "nothing was kept."
        )
    return made


def _download(url: str, sha256: str | None, scratch: Path) -> Path:
    import pooch  # a tenth of a second, for this function alone

    name = url.rsplit("/", 1)[-1]
    with track(f"fetching {name}", None, "MB") as tracker:
        downloader = pooch.HTTPDownloader(
            progressbar=_Bar(tracker),
            chunk_size=_BLOCK,
            timeout=_TIMEOUT_S,
            # A server that packs what it sends would have requests unpack our .gz files.
            headers={"Accept-Encoding": "identity"},
        )
        try:
            with _quiet(pooch.get_logger()):
                path = pooch.retrieve(url, sha256, "original", scratch, downloader=downloader)
        except OSError as error:  # the errors of requests among them
            raise InputError(f"data: cannot fetch {url}: {_reason(error)}.") from None
        except ValueError:
            raise InputError(f"data: {url} does not have the expected checksum.") from None
    return Path(path)


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """It logs every download, and asks for checksums, at level INFO."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """What was wrong at the bottom: requests and urllib3 wrap it several times."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error).removesuffix(".") or type(error).__name__


class _Bar:
    """A progress bar as pooch wants it, which only tells a tracker how far it is."""

    def __init__(self, tracker: Tracker) -> None:
        self.total = 0
        self._tracker = tracker
        self._done = 0

    def update(self, size: int) -> None:
        """So many bytes more; the last block counts as a whole one."""
        self._done += size
        received = min(self._done, self.total or self._done)
        self._tracker.advance(received / 1e6, {"of MB": self.total / 1e6} if self.total else {})

    def reset(self) -> None:
        """Called at the end, before the whole is told at once."""
        self._done = 0

    def close(self) -> None:
        """Nothing to close."""
