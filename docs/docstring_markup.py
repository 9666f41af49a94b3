"""Docstrings as the API reference shows them: roles and doctests of Sphinx as Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`([^`]+)`")
_CODE = re.compile(r"``([^`]+)``")
_DOCTEST = re.compile(r"^(?:>>> .*\n?)(?:.+\n?)*", re.MULTILINE)


def as_markdown(text: str) -> str:
    """One docstring.

    >>> as_markdown("See :class:`~feduplink.errors.InputError` and ``p``.")
    'See `InputError` and `p`.'
    """
    text = _ROLE.sub(lambda role: f"`{_shown(role[1])}`", text)
    text = _CODE.sub(r"`\1`", text)
    return _DOCTEST.sub(lambda example: f"```pycon\n{example[0].rstrip()}\n```\n", text)


def _shown(target: str) -> str:
    """What a role shows: its last part after a tilde, else the whole."""
    return target.rpartition(".")[2] if target.startswith("~") else target


class DocstringMarkup(griffe.Extension):
    """Applied to every docstring when it is read."""

    def on_object(self, *, obj: griffe.Object, **_further: Any) -> None:
        """Rewrite the docstring, if there is one."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
