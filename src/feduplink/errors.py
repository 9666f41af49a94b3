"""Exceptions of the package: rejected input and proofs that do not hold."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Maximum length of an error message, characters; the middle of a longer one is left out.
_MAX_MESSAGE_LENGTH = 1200


class InputError(ValueError):
    """Invalid input: an argument, an option, a field of a scenario or a file.

    The message is one sentence that names the field, the value given and the values accepted. It
    is reduced to one line of at most 1200 characters, even if it quotes long input. The command
    line prints it and exits with status 2.

    Args:
        sentence: the message.

    >>> import feduplink as fu
    >>> try:
    ...     fu.Scenario(workers=0)
    ... except fu.InputError as error:
    ...     print(error)
    workers: Input should be greater than or equal to 1 (got 0).
    """

    def __init__(self, sentence: str) -> None:
        line = " ".join(sentence.split())
        if len(line) > _MAX_MESSAGE_LENGTH:
            half = _MAX_MESSAGE_LENGTH // 2
            line = f"{line[:half]} ... {line[-half:]}"
        super().__init__(line)


class ProofError(ValueError):
    """A proof of optimality that does not hold.

    The message names the first step that fails. The command line prints it and exits with
    status 1.

    >>> import feduplink as fu
    >>> raise fu.ProofError("the stated bound does not follow from the bounds of the channels")
    Traceback (most recent call last):
    ...
    feduplink.errors.ProofError: the stated bound does not follow from the bounds of the channels
    """


def unknown_name(field: str, name: str, accepted: Iterable[str], *others: str) -> InputError:
    """Error for a name that is not in ``accepted``.

    Args:
        field: argument or option that holds the name.
        name: the unknown name.
        accepted: all accepted names.
        others: descriptions of further accepted values, such as ``or package.module:Object``.

    Returns:
        The exception, to be raised by the caller.

    >>> raise unknown_name("policy", "mox", ["rand", "max"])
    Traceback (most recent call last):
    ...
    feduplink.errors.InputError: policy: 'mox' is unknown, did you mean max? accepted: rand, max.
    """
    names = list(accepted)
    listed = ", ".join([*names, *others])
    return InputError(
        f"{field}: {name!r} is unknown{did_you_mean(name, names)} accepted: {listed}."
    )


def did_you_mean(name: str, accepted: Iterable[str]) -> str:
    """Return ``, did you mean NAME?`` if an accepted name is similar, otherwise a semicolon."""
    # Leading dashes would make all options similar.
    plain = {text.lstrip("-"): text for text in accepted}
    near = difflib.get_close_matches(name.lstrip("-"), plain, n=1)
    return f", did you mean {plain[near[0]]}?" if near else ";"
