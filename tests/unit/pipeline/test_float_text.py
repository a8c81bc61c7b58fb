"""Floats as text and back."""

from __future__ import annotations

import math

import pytest

from headwater.core.errors import BadInput
from headwater.pipeline.float_text import float_of, float_text


@pytest.mark.parametrize(("text", "number"), [("1.5", 1.5), ("-0.0", -0.0), ("0e-999", 0.0), ("5e-324", 5e-324), ("1e308", 1e308)])
def test_text_becomes_the_float_that_it_says(text: str, number: float) -> None:
    assert float_of(text) == number
    assert math.copysign(1, float_of(text)) == math.copysign(1, number)


@pytest.mark.parametrize(
    ("text", "why"), [("1e400", "beyond"), ("-1e400", "beyond"), ("1e-400", "nearer to 0"), ("-0.1e-400", "nearer to 0")]
)
def test_a_number_that_no_float_can_be_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        float_of(text)


@pytest.mark.parametrize("number", [1.0, -0.0, 0.1, float("nan"), float("inf"), float("-inf")])
def test_every_float_comes_back_from_its_text(number: float) -> None:
    assert repr(float(float_text(number))) == repr(number)
