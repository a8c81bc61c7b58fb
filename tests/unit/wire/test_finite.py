from __future__ import annotations

from decimal import Decimal

import pytest

from headwater.wire.finite import finite


@pytest.mark.parametrize("data", [None, 1, 1.5, "NaN", [1, {"a": 2.5}], Decimal("1.5"), b"x"])
def test_what_json_can_hold_is_finite(data: object) -> None:
    assert finite(data)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), Decimal("Infinity"), Decimal("1e999")])
def test_a_number_that_json_cannot_hold_is_found_wherever_it_is(number: object) -> None:
    assert not finite(number)
    assert not finite({"a": [1, (2, {"b": number})]})


def test_decimals_may_be_larger_than_floats() -> None:
    assert finite({"a": Decimal("1e999")}, as_float=False)
    assert not finite([Decimal("NaN")], as_float=False)
    assert not finite([float("inf")], as_float=False)
