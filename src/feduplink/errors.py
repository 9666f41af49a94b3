"""The exceptions a caller has to expect."""

from __future__ import annotations

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
