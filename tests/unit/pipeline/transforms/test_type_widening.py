"""Types for several batches: what one batch of all their documents would have got."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.pipeline.message import Message
from headwater.pipeline.transforms.columns import batch_of
from headwater.pipeline.transforms.type_widening import Unusual, both, fitted, mixes

VALUES = st.one_of(
    st.none(),
    st.integers(-(2**62), 2**62),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.decimals(-1000, 1000, places=2),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 9), min_size=1),
    st.lists(st.integers(0, 9), max_size=2),
    st.sampled_from(["x", True, {"$date": "2024-02-29T00:00:00.000Z"}]),
)


def columns(*values: Any) -> pa.Schema:
    return batch_of([Message("t", {"f": value}) for value in values], digits=38).schema.remove(0)


@given(st.lists(VALUES, min_size=1, max_size=4), st.lists(VALUES, min_size=1, max_size=4))
def test_what_fits_is_what_one_batch_would_give(first: list[Any], second: list[Any]) -> None:
    whole = batch_of([Message("t", {"f": value}) for value in [*first, *second]], digits=38)
    field = columns(*first).field("f")
    try:
        made = fitted(second, field, 38)
    except Unusual as other:
        if other.columns is not None:
            wide = both(pa.schema([field]), other.columns)
            assert wide is None or not wide.equals(pa.schema([field])) or pa.types.is_nested(field.type)
        return
    assert made.type == field.type
    if whole.schema.field("f").type == field.type:
        assert made.to_pylist() == whole.column("f").to_pylist()[len(first) :]


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (None, 5, pa.int64()),
        (5, 0.5, pa.float64()),
        (Decimal("1.10"), Decimal("100.125"), pa.decimal128(14, 4)),
        (Decimal("1.10"), 7, pa.decimal128(12, 2)),
        ({"a": 1}, {"b": "x", "a": None}, pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ([1], [], pa.list_(pa.int64())),
    ],
)
def test_types_grow(one: Any, other: Any, kind: pa.DataType) -> None:
    wide = both(columns(one), columns(other))
    assert wide is not None
    assert wide.field("f").type == kind
    assert not mixes(wide, columns(one))


@pytest.mark.parametrize(("one", "other"), [(1, "x"), ({"a": 1}, {"a": "x"}), ([1], {"a": 1}), (True, 1), (10**37, Decimal("0.125"))])
def test_some_have_no_type_in_common(one: Any, other: Any) -> None:
    assert both(columns(one), columns(other)) is None
    with pytest.raises(Unusual):
        fitted([other], columns(one).field("f"), 38)


def test_text_that_is_json_stays_so_and_makes_nothing_else_so() -> None:
    mixed = columns(1, "x")
    assert fitted([5, "y", None], mixed.field("f"), 38).to_pylist() == ["5", '"y"', None]
    wide = both(columns(1), mixed)
    assert wide is not None
    assert mixes(wide, columns(1))
    assert not mixes(wide, mixed)
    with pytest.raises(Unusual) as other:
        fitted([1, "x"], columns(1).field("f"), 38)
    assert other.value.columns is None


@pytest.mark.parametrize(
    ("known", "values", "needed"), [(0.5, [2**60], pa.decimal128(20, 0)), (Decimal("1.10"), [1000, 0.125], pa.decimal128(14, 4))]
)
def test_numbers_that_do_not_fit_say_what_they_need(known: Any, values: list[Any], needed: pa.DataType) -> None:
    with pytest.raises(Unusual) as other:
        fitted(values, columns(known).field("f"), 38)
    assert other.value.columns is not None
    assert other.value.columns.field("f").type == needed
