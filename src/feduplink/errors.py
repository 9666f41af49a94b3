"""The exceptions a caller has to expect."""

from __future__ import annotations


class InputError(ValueError):
    """Input that feduplink cannot accept.

    The message is one sentence that names the field and what is accepted; the command line
    prints it and exits with status 2.
    """


class ProofError(ValueError):
    """A proof that does not hold.

    The message says where it fails; the command line prints it and exits with status 1.
    """
