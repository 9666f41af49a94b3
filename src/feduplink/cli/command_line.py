"""Execution of a command line: parse the options, call a workflow, print the result.

:mod:`feduplink.cli.commands` lists the commands. A command validates its input before it writes
files.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from feduplink.cli.commands import Call, parse
from feduplink.cli.options import (
    config_text,
)
from feduplink.errors import InputError, ProofError
from feduplink.progress import status
from feduplink.units import set_units
from feduplink.workflows.options import takes

ACCEPTED, DOES_NOT_HOLD, REFUSED, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: words after ``feduplink``; None: those of the process.

    Returns:
        The exit status: 0 on success; 1 for a proof that does not hold
        (:class:`~feduplink.errors.ProofError`); 2 for invalid input
        (:class:`~feduplink.errors.InputError`), whose message is printed; 130 and 143 after SIGINT
        and SIGTERM.
    """
    words = sys.argv[1:] if argv is None else argv
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            with _signals_as_interrupts():
                _run(words)
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


class Terminated(KeyboardInterrupt):
    """SIGTERM was received."""


def _run(words: Sequence[str]) -> None:
    """Parse and run a command, or print its configuration."""
    with _modules_of_the_user():
        call = parse(words)
        if call.given.common.units is not None:
            set_units(call.given.common.units)
        if call.given.prints_config:
            _import_modules(call)
            scenario = call.scenario() if takes(call.workflow, "scenario") else None
            print(config_text(call.workflow, call.given, scenario), end="")
            return
        # Imported here, because importing PyTorch takes seconds; --help and errors do not need it.
        with status("loading PyTorch"), _without_garbage_collection("torch"):
            import torch

            from feduplink.storage.run_directory import command, reserved

        # For these small matrices a second thread does not help, and slows down a busy machine.
        torch.set_num_threads(1)
        with command(words), contextlib.ExitStack() as stack:
            _import_modules(call)
            if call.command.writes:
                stack.enter_context(reserved(call.out, call.command.name))
            call.command.run(call)


@contextlib.contextmanager
def _without_garbage_collection(module: str) -> Iterator[None]:
    """Exclude objects created by imports in the block from garbage collection.

    The 250,000 objects of PyTorch live as long as the process; collecting them takes a second. No
    effect if ``module`` has been imported already.
    """
    if module in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Raise :class:`Terminated` on SIGTERM and ``KeyboardInterrupt`` on SIGINT within the block.

    C++ libraries may replace an exception that is raised while they convert arguments; after a
    signal, the exception of the signal is raised in any case. No effect outside the main thread; an
    ignored SIGINT remains ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[type[KeyboardInterrupt]] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
        raise received[-1]

    handled = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        handled.append(signal.SIGINT)
    before: dict[int, Callable[..., Any] | int | None] = {
        number: signal.signal(number, interrupt) for number in handled
    }
    try:
        yield
    except Exception:
        if received:
            raise received[-1] from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _modules_of_the_user() -> Iterator[None]:
    """Find modules in the current directory, as ``python -m`` does."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


def _import_modules(call: Call) -> None:
    """Import the modules of ``--import``."""
    for name in call.given.common.imports:
        try:
            importlib.import_module(name)
        except (ImportError, ValueError) as error:
            reason = " ".join(str(error).split()).removesuffix(".")
            raise InputError(
                f"import: {name} cannot be imported: {reason}; accepted: a module of the current "
                "directory or an installed one."
            ) from error


def _reason(error: OSError) -> str:
    """File and reason of an ``OSError``, as far as they are known."""
    if error.filename is None or error.strerror is None:
        return str(error).removesuffix(".")
    return f"{error.filename}: {error.strerror}"


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    """Print a warning as one sentence."""
    print(f"feduplink: warning: {message}.", file=sys.stderr)
