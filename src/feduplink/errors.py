"""The one exception a caller has to expect."""

from __future__ import annotations


class InputError(ValueError):
    """Input that feduplink cannot accept.

    The message is one sentence that names the field and what is accepted; the command line
    prints it and exits with status 2.
    """
