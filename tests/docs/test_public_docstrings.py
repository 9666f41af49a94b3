"""Docstrings of the public names: arguments, return values and an example that runs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import feduplink

#: Functions and classes that the package exports.
NAMES = [name for name in feduplink.__all__ if callable(getattr(feduplink, name))]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(feduplink, name))]
METHODS = [
    (name, method)
    for name in CLASSES
    for method, item in vars(getattr(feduplink, name)).items()
    if not method.startswith("_")
    if isinstance(item, classmethod | staticmethod) or inspect.isfunction(item)
]


@pytest.mark.parametrize("name", NAMES)
def test_docstring_of_a_public_name_has_an_example(name: str):
    assert ">>> " in docstring(getattr(feduplink, name))


@pytest.mark.parametrize("name", NAMES)
def test_docstring_of_a_public_name_describes_all_parameters(name: str):
    public = getattr(feduplink, name)
    if (
        inspect.isclass(public)
        and issubclass(public, BaseException)
        and "__init__" not in vars(public)
    ):
        return
    described = docstring(public)
    if inspect.isclass(public) and issubclass(public, BaseModel):
        fields = public.model_fields.items()
        assert not [field for field, info in fields if not info.description]
        return
    assert not undescribed(public, described)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CLASSES])
def test_docstring_of_a_public_function_describes_what_it_returns(name: str):
    public = getattr(feduplink, name)
    assert returns_nothing(public) or has_returns(docstring(public))


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_docstring_of_a_public_method_describes_parameters_and_return_value(name: str, method: str):
    """An overriding method may leave the description to the method that it overrides."""
    owner = getattr(feduplink, name)
    bound = getattr(owner, method)
    described = "\n".join(
        docstring(vars(parent)[method]) for parent in owner.__mro__ if method in vars(parent)
    )
    assert not undescribed(bound, described)
    assert returns_nothing(bound) or has_returns(described)


def docstring(item: Any) -> str:
    return inspect.getdoc(item) or ""


def undescribed(item: Callable[..., Any], text: str) -> list[str]:
    """Names of parameters without an entry ``name: ...`` or ``name, other: ...``."""
    names = [name for name in inspect.signature(item).parameters if name not in ("self", "cls")]
    return [name for name in names if not re.search(rf"^\s+(\w+, )*{name}(, \w+)*: ", text, re.M)]


def has_returns(text: str) -> bool:
    return bool(re.search(r"^\s*(Returns|Yields):$", text, re.M))


def returns_nothing(item: Callable[..., Any]) -> bool:
    return inspect.signature(item).return_annotation in (None, "None", "Iterator[None]")
