"""The exceptions a caller has to expect."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Characters of a sentence; of a longer one the middle is left out.
_LONGEST = 1200


class InputError(ValueError):
    """Input that feduplink cannot accept.

    The message is one sentence that names the field and what is accepted; the command line
    prints it and exits with status 2. What it repeats of the input may be long, or have line
    breaks; the sentence is one line and no page.
    """

    def __init__(self, sentence: str) -> None:
        line = " ".join(sentence.split())
        if len(line) > _LONGEST:
            line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
        super().__init__(line)


class ProofError(ValueError):
    """A proof that does not hold.

    The message says where it fails; the command line prints it and exits with status 1.
    """


def unknown_name(field: str, name: str, accepted: Iterable[str], *others: str) -> InputError:
    """The refusal of a name that is none of ``accepted``; ``others`` says what else would do.

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
    """``, did you mean NAME?`` if one of the accepted names is near, else a semicolon."""
    # The dashes of options make any two of them alike.
    plain = {text.lstrip("-"): text for text in accepted}
    near = difflib.get_close_matches(name.lstrip("-"), plain, n=1)
    return f", did you mean {plain[near[0]]}?" if near else ";"
