"""Types of values, the types that hold several, and what columns hold."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.adaptors.file.parquet_columns import RULES as PARQUET
from headwater.adaptors.mysql.columns import RULES as MYSQL
from headwater.adaptors.postgres.columns import RULES as POSTGRES
from headwater.adaptors.sqlite.columns import RULES as SQLITE
from headwater.pipeline.columns import ColumnRules, ColumnType, fits, holds, misfit, observed, type_of, wider

EVERY = pytest.mark.parametrize("rules", [PARQUET, SQLITE, POSTGRES, MYSQL], ids=["parquet", "sqlite", "postgres", "mysql"])
_SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=4),
    st.sampled_from(["", "1", {"$oid": "5"}, {"$date": 1000}, {"$binary": {"base64": "AA==", "subType": "00"}}]),
    st.sampled_from([{"$uuid": "00000000-0000-0000-0000-000000000001"}, {"$numberDouble": "NaN"}, {"$numberDecimal": "Infinity"}]),
    st.sampled_from([Decimal("0.10000000000000000001"), Decimal("1e-20"), Decimal("1e40"), 0.1, 1.0, -0.0]),
)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2), max_leaves=4
)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, None),
        (True, ColumnType("bool")),
        (12, ColumnType("int", whole=2)),
        (-(2**63), ColumnType("int", whole=19)),
        (2**63, ColumnType("decimal", whole=19, exact=True)),
        (1.5, ColumnType("float", whole=1, scale=1)),
        ({"$numberDouble": "NaN"}, ColumnType("float", nan=True)),
        (Decimal("12.00"), ColumnType("decimal", whole=2)),
        (Decimal("0.125"), ColumnType("decimal", whole=1, scale=3)),
        (Decimal("0.10000000000000000001"), ColumnType("decimal", whole=1, scale=20, exact=True)),
        (Decimal("1e400"), ColumnType("decimal", whole=401, exact=True)),
        ("1", ColumnType("text")),
        ({"$oid": "1"}, ColumnType("oid")),
        ({"$date": 1000}, ColumnType("moment")),
        ({"a": 1, "b": None}, ColumnType("object", fields={"a": ColumnType("int", whole=1)})),
        ([1, Decimal("2.5")], ColumnType("list", item=ColumnType("decimal", whole=1, scale=1))),
        ([1, "x"], ColumnType("list", item=ColumnType("any"))),
        ([], ColumnType("list")),
    ],
)
def test_values_have_types(value: Any, kind: ColumnType | None) -> None:
    assert type_of(value) == kind


@given(one=_VALUES, other=_VALUES)
def test_the_wider_type_is_the_same_from_both_sides(one: Any, other: Any) -> None:
    a, b = type_of(one), type_of(other)
    if a is not None and b is not None:
        assert _unordered(wider(a, b)) == _unordered(wider(b, a))
        assert wider(a, a) == a


def _unordered(kind: ColumnType) -> Any:
    item = None if kind.item is None else _unordered(kind.item)
    fields = sorted((name, str(_unordered(one))) for name, one in kind.fields.items())
    return kind.kind, kind.whole, kind.scale, kind.exact, kind.nan, kind.infinite, fields, item


@EVERY
@given(values=st.lists(_VALUES, min_size=1, max_size=5))
def test_a_column_holds_what_it_was_decided_by_or_refuses_it(rules: ColumnRules, values: list[Any]) -> None:
    types = observed([{"v": one} for one in values], rules)
    if "v" not in types:
        return
    column = types["v"]
    assert rules.settled(column) == column
    assert rules.widens(column, column)
    assert rules.named(column)
    held = [one for one in values if holds(column, one)]
    assert fits(column, held)
    assert fits(column, values) == (len(held) == len(values))
    assert observed([{"v": one} for one in held], rules).get("v", column) is not None


@EVERY
@given(first=_VALUES, later=_VALUES, key=st.booleans())
def test_a_wider_column_holds_the_value_and_all_that_the_narrower_one_held(rules: ColumnRules, first: Any, later: Any, key: bool) -> None:
    types, kind = observed([{"v": first}], rules), type_of(later)
    if "v" not in types or kind is None or holds(types["v"], later, key=key):
        return
    after = rules.widened(types["v"], kind, key=key)
    if after is not None:
        assert holds(after, later)
        assert holds(after, first) or types["v"].kind == "null"  # of which no column was made
        assert not key or after.kind == types["v"].kind


def test_a_keys_column_holds_one_kind() -> None:
    types = observed([{"_id": 1}, {"_id": Decimal("1.0")}, {"_id": True}, {"_id": "1"}], SQLITE, ["_id"])
    assert types["_id"].kind == "int"
    assert not holds(types["_id"], Decimal("1.0"), key=True)
    assert not holds(types["_id"], True, key=True)
    assert observed([{"_id": {"$oid": "1"}}, {"_id": "1"}], SQLITE, ["_id"])["_id"].kind == "oid"


def test_a_refusal_names_column_type_and_value() -> None:
    said = misfit("orders", "total", "NUMERIC", "x" * 200)
    assert said.startswith('The column total of orders is NUMERIC, and the message has "xxx')
    assert said.endswith("… (text) there.")
    assert misfit("", "v", None, [1, "a"]) == 'The column v can have no type that holds [1,"a"] (list of any).'


def test_an_integer_with_more_digits_than_python_prints_has_a_type() -> None:
    assert type_of(10**5000) == ColumnType("decimal", whole=5001, exact=True)
