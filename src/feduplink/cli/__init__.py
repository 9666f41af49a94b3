"""The ``feduplink`` command line: parse, call, print.

:mod:`feduplink.cli.commands` lists the commands and says what a new one takes. A command checks all
its input before it writes anything, and raises :class:`~feduplink.errors.InputError` with one
sentence for what it cannot accept. :func:`main` prints that sentence and returns 2. A proof that
does not hold is another matter: a :class:`~feduplink.errors.ProofError`, and 1. While a
command runs no other one writes to its ``--out``. SIGINT and SIGTERM end it with 130 and 143.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from feduplink.cli.parsing import parse
from feduplink.cli.slow_imports import loading
from feduplink.cli.terminating import Terminated, terminated_in_order
from feduplink.errors import InputError, ProofError
from feduplink.storage.files import only_writer

ACCEPTED, DOES_NOT_HOLD, REFUSED, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = sys.argv[1:] if argv is None else argv
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            with terminated_in_order():
                _run(parse(words), words)
        except InputError as error:
            print(f"feduplink: {error}", file=sys.stderr)
            return REFUSED
        except ProofError as error:
            print(f"feduplink: {error}.", file=sys.stderr)
            return DOES_NOT_HOLD
        except OSError as error:
            print(f"feduplink: {_reason(error)}.", file=sys.stderr)
            return REFUSED
        except KeyboardInterrupt as interrupt:
            print(f"feduplink: interrupted. {interrupt}".rstrip(), file=sys.stderr)
            return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
    return ACCEPTED


def _run(args: argparse.Namespace, words: Sequence[str]) -> None:
    """Do what was asked for."""
    # Imported here: they take seconds, and nobody should wait that long for a --help.
    with loading("PyTorch", "torch"):
        import torch

        from feduplink.storage import run_directory as provenance

    # The matrices are small: a second thread gains nothing on an idle machine, and on a busy
    # one its waiting makes everything ten times slower.
    torch.set_num_threads(1)
    with provenance.command(words), _modules_of_the_user():
        for name in args.imported:
            _import(name)
        with only_writer(args.out) if "out" in args else contextlib.nullcontext():
            args.run(args)


@contextlib.contextmanager
def _modules_of_the_user() -> Iterator[None]:
    """Find modules in the current directory, as ``python -m`` does."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except (ImportError, ValueError) as error:
        reason = " ".join(str(error).split()).removesuffix(".")
        raise InputError(
            f"import: {name} cannot be imported: {reason}; accepted: a module of the current "
            "directory or an installed one."
        ) from error


def _reason(error: OSError) -> str:
    """Which file, and what is wrong with it, as far as the system says so."""
    if error.filename is None or error.strerror is None:
        return str(error).removesuffix(".")
    return f"{error.filename}: {error.strerror}"


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    print(f"feduplink: warning: {message}.", file=sys.stderr)
