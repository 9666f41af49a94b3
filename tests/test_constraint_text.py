from __future__ import annotations

import pytest

from feduplink import InputError
from feduplink.scenario import ConstraintText


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("rate >= 0.7", ("rate", False, (0.7,))),
        ("power<=0.005", ("power", True, (0.005,))),
        ("  my.module:Power  <=  1e-3 2e-3 0 ", ("my.module:Power", True, (1e-3, 2e-3, 0.0))),
        ("gain >= -3", ("gain", False, (-3.0,))),
    ],
)
def test_a_constraint_is_taken_apart(text: str, parts: tuple):
    assert ConstraintText.parse(text, workers=3) == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rate",
        "rate >= ",
        "rate > 0.7",
        "rate = 0.7",
        "0.7 <= rate",
        ">= 0.7",
        "rate >= high",
        "rate >= 0.7 0.8",  # neither one nor three
        "rate >= nan",
        "rate >= inf",
        "rate >= 0.7 <= 0.9",
        "two words >= 0.7",
    ],
)
def test_what_is_none_is_refused_in_one_sentence(text: str):
    with pytest.raises(InputError) as refusal:
        ConstraintText.parse(text, workers=3)
    assert str(refusal.value).startswith(f"constraints: {text!r} is not accepted; accepted: NAME")
    assert "one limit or 3, one per worker" in str(refusal.value)
