"""Steps: no filter takes more than it may, and what is too costly is the same every time."""

from __future__ import annotations

import pytest

from headwater.documents.filter.evaluate import Verdict, compile_filter
from headwater.documents.filter.meter import StepMeter, TooManySteps


def test_steps_end() -> None:
    meter = StepMeter(10)
    meter.take(9)
    meter.read(10)
    with pytest.raises(TooManySteps):
        meter.take(1)


@pytest.mark.parametrize(
    "text",
    [
        " or ".join(f"l has 'x{number}'" for number in range(30)),
        "(l -- l) = []",
        "(l ++ l ++ l ++ l) has 'x'",
        "t like 'a.*b'",
        "isExists(l -- l)",
        "l = l",
    ],
)
def test_an_item_that_is_too_costly_is_rejected(text: str) -> None:
    body = {"l": [["y"] * 3] * 60_000, "t": "a" * 300_000}
    assert compile_filter(text).verdict(body) is Verdict.TOO_COSTLY
    assert compile_filter(text).verdict(body) is Verdict.TOO_COSTLY


def test_a_comparison_with_a_constant_is_cheap_whatever_the_item_holds() -> None:
    body = {"l": [1] * 300_000, "t": "a" * 1_000_000}
    assert compile_filter("l = 5 or t = 'a' or t < 'b'").verdict(body) is Verdict.ACCEPTED
