from __future__ import annotations

from decimal import Decimal

import pytest

from headwater.core.document_errors import UnfitBody
from headwater.core.errors import BadInput, TooLarge
from headwater.documents.body import body_bytes, item_value, kind_of, read_body, state_value, without_nulls


@pytest.mark.parametrize(
    "text", ["1.10", "0.1", "1e+16", "123456789012345678901234567890", "-0.0", '"a\\u0000"', '[null,{"a":null}]', "null", "true"]
)
def test_a_value_is_kept_with_its_digits(text: str) -> None:
    kept = body_bytes(read_body(text.encode()))
    assert state_value(kept) == read_body(text.encode())
    assert body_bytes(state_value(kept)) == kept


def test_decimals_print_as_they_were_sent() -> None:
    assert body_bytes(read_body(b'{ "price" : 1.10, "n": 12345678901234567890.5 }')) == b'{"price":1.10,"n":12345678901234567890.5}'
    assert read_body(b"1.10") == Decimal("1.10")


def test_of_a_name_that_is_there_twice_the_last_value_counts() -> None:
    assert read_body(b'{"a":1,"a":2}') == {"a": 2}


@pytest.mark.parametrize(
    "data", [b"", b"{", b"NaN", b"Infinity", b'"\xff"', b"{} {}", b'"\\ud800"', b"[" * 5000, b"1e99999999999999999999"]
)
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput) as refused:
        read_body(data)
    assert refused.value.status in (400, 422)
    assert refused.value.hint


def test_a_number_of_too_many_digits_is_refused() -> None:
    assert body_bytes(read_body(b"9" * 4000)) == b"9" * 4000
    with pytest.raises(BadInput):
        body_bytes(read_body(b"9" * 10_000))


def test_depth_and_size_are_limited() -> None:
    read_body(b"[" * 64 + b"]" * 64)
    with pytest.raises(UnfitBody, match="64"):
        read_body(b"[" * 65 + b"]" * 65)
    read_body(b"[1]", limit=3)
    with pytest.raises(TooLarge, match="4 bytes"):
        read_body(b"[12]", limit=3)


def test_nulls_go_through_objects_but_not_arrays() -> None:
    value = {"a": None, "b": {"c": None, "d": {"e": None}}, "f": [None, {"g": None}], "h": 0}
    assert without_nulls(value) == {"b": {"d": {}}, "f": [None, {"g": None}], "h": 0}
    assert without_nulls(None) is None
    assert without_nulls([None]) == [None]
    assert value["a"] is None


def test_an_item_has_its_id() -> None:
    assert item_value("7", {"a": 1}) == {"id": "7", "a": 1}
    assert item_value("7", {"a": 1, "id": "8"}) == {"id": "7", "a": 1}
    assert item_value("7", {"a": 1, "id": "7"}) == {"a": 1, "id": "7"}
    assert item_value("7", None) == {"id": "7"}
    for other in (1, "a", [1], True):
        with pytest.raises(UnfitBody, match="'7'"):
            item_value("7", other)


def test_kinds_have_names() -> None:
    assert [kind_of(value) for value in (None, True, "", {}, [], 1, Decimal(1))] == [
        *("null", "a boolean", "a text", "an object", "an array", "a number", "a number")
    ]
