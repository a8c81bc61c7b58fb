"""Kinds of columns from values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.adaptors.sql.infer import fields


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, 2], "int"),
        ([1, 2**63], "decimal"),
        ([1, 2.5], "float"),
        ([1.5, Decimal("1.10")], "decimal"),
        ([True, None], "bool"),
        ([True, 1], "json"),
        (["a"], "text"),
        ([{"$date": "2020-01-01T00:00:00Z"}], "moment"),
        ([{"$binary": "AA=="}], "bytes"),
        ([{"$uuid": "00000000-0000-0000-0000-000000000001"}], "uuid"),
        ([{"$numberLong": "5"}, 6], "int"),
        ([{"a": 1}, [1]], "json"),
        (["a", 1], "json"),
        ([None], "text"),
    ],
)
def test_the_narrowest_kind_that_holds_all_values(values: list[Any], kind: str) -> None:
    assert fields({"f": value} for value in values) == {"f": kind}


def test_fields_keep_the_order_in_which_they_come_up() -> None:
    assert list(fields([{"b": 1}, {"a": 1, "b": 2}, {"c": None}])) == ["b", "a", "c"]
