"""The files of a run that a page is made of: regular, of no great size, in its directory."""

from __future__ import annotations

from pathlib import Path

from feduplink.errors import InputError
from feduplink.files import read_limited


def run_files(directory: Path, suffix: str) -> list[Path]:
    """The files that end with ``suffix``, by name."""
    return sorted(path for path in directory.iterdir() if path.suffix == suffix)


def read_run_file(path: Path, most_bytes: int) -> bytes:
    """The content of a file of the run in its directory; what a link leads to elsewhere is not.

    A page is passed on; it must not bring along what somebody had a name in a run lead to.
    """
    if not path.resolve().is_relative_to(path.parent.resolve()):
        raise InputError(f"{path}: leads out of its run; accepted: files of the run itself.")
    return read_limited(path, "report", most_bytes)


def read_run_text(path: Path, most_bytes: int) -> str:
    """The same as text in UTF-8."""
    try:
        return read_run_file(path, most_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: is no text; accepted: UTF-8.") from None
