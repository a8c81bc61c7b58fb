"""Documents through JSON and back: no value changes, and what cannot be kept is refused."""

from __future__ import annotations

import base64
import math
import pickle
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput
from headwater.pipeline.long_integer import Long
from headwater.pipeline.values import (
    as_json,
    canonical,
    decode,
    decode_any,
    decode_plain,
    decoder_of,
    encode,
    encode_lines,
    extended,
    field_by_field,
    from_text,
    native,
    natives,
    number,
    revived,
    store,
    tagged,
    unmarked,
)

NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(st.characters(codec="utf-8"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "text",
    [
        "1.10",
        "0.1",
        "1E+400",
        "-1E+400",
        "1E-400",
        "123456789012345678901234567890",
        "-123456789012345678901234567890",
        "0.123456789012345678901234567890",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "0",
        "-0.0",
        "100.00",
        "5E-324",
    ],
)
def test_a_number_comes_out_as_it_went_in(text: str) -> None:
    assert encode(decode(f'{{"n":{text}}}'.encode())) == f'{{"n":{text}}}'.encode()


LONGS = {"a": {"$numberLong": "7"}, "b": [{"$numberLong": "1099511627776"}], "c": {"$numberInt": "-7"}}


def test_an_integer_of_extended_json_is_an_int_and_a_plain_one_in_the_text_for_others() -> None:
    text = msgspec.json.encode(LONGS)
    for read in (decode(text), decode(text, "float"), decoder_of([text])(text), decode_any(text), from_text(dict(LONGS))):
        assert read == {"a": 7, "b": [1 << 40], "c": -7}
        assert read["a"] * 2 == 14
        assert encode(read) == b'{"a":7,"b":[1099511627776],"c":-7}' == encode_lines([read]).strip() == canonical(read)
        assert msgspec.json.encode(as_json(read)) == encode(read)
        assert extended(read) == read
        assert natives(read) == read
        assert type(natives(read)["a"]) is int
    assert unmarked(text) == b'{"a":7,"b":[1099511627776],"c":-7}' == unmarked(text.replace(b":{", b": {"))


def test_a_small_long_stays_one_in_the_log_and_what_is_computed_with_it_is_plain() -> None:
    read = decode(msgspec.json.encode(LONGS))
    assert store(read) == b'{"a":{"$numberLong":"7"},"b":[1099511627776],"c":-7}'
    assert store({"a": read["a"] + 1}) == b'{"a":8}'
    again = pickle.loads(pickle.dumps(read["a"]))
    assert type(again) is Long
    assert store(again) == b'{"$numberLong":"7"}'


def test_the_long_in_a_date_is_a_part_of_the_date() -> None:
    text = b'{"at":{"$date":{"$numberLong":"5"}},"n":{"$numberLong":"5"}}'
    assert decode(text) == {"at": {"$date": {"$numberLong": "5"}}, "n": 5} == from_text(msgspec.json.decode(text))
    assert unmarked(text) == b'{"at":{"$date":{"$numberLong":"5"}},"n":5}' == unmarked(text.replace(b":{", b": {"))


@pytest.mark.parametrize(
    "value",
    [
        {"$date": {"price": 1.5}},
        {"$date": {"n": Long(7)}},
        {"$date": [1.5, Decimal(5)]},
        {"$date": 1.5},
        {"$date": Decimal(5)},
        {"$date": {"$numberLong": 1.5}},
        {"$date": {"$numberLong": "5", "x": 1.5}},
        {"$numberLong": 1.5},
        {"$numberInt": [1.5]},
    ],
    ids=repr,
)
def test_an_object_that_only_looks_like_a_date_or_a_number_keeps_the_types_in_it(value: dict[str, Any]) -> None:
    for read in (decode(store({"x": value}))["x"], from_text(msgspec.json.decode(store({"x": tagged(value, every=True)})))["x"]):
        assert read == value
        assert repr(read) == repr(value)
        assert store(read) == store(value)
    assert decode(unmarked(store({"x": value}))) == decode(encode({"x": value}))


@pytest.mark.parametrize("text", ['{"$numberLong":1.5}', '{"$numberLong":"x"}', '{"$numberInt":true}', '{"$numberLong":"1","a":2}'])
def test_an_object_that_only_looks_like_an_integer_stays_one(text: str) -> None:
    assert encode(decode(f'{{"a":{text}}}'.encode())) == f'{{"a":{text}}}'.encode() == unmarked(f'{{"a":{text}}}'.encode())


def test_a_number_with_a_point_or_an_exponent_is_a_decimal_whatever_its_digits() -> None:
    read = decode(b'{"a":1.5,"b":1.10,"c":1e400,"d":7,"e":1e2,"f":-0.0}')
    assert [type(value) for value in read.values()] == [Decimal, Decimal, Decimal, int, Decimal, Decimal]
    assert read["c"] == Decimal("1e400")
    assert str(read["f"]) == "-0.0"


def test_a_number_of_text_is_a_float_in_every_cell_where_floats_are_asked_for() -> None:
    read = decode(b'{"a":1.5,"b":1.10,"d":7,"e":1e2,"deep":[{"x":1.20}]}', "float")
    assert [type(value) for value in read.values()] == [float, float, int, float, list]
    assert type(read["deep"][0]["x"]) is float
    for small in ("1e-400", "-0.0001E-330"):
        with pytest.raises(BadInput, match=f"{small} is nearer to 0 than the smallest float"):
            decode(f'{{"n": {small}}}'.encode(), "float")
    assert decode(b'{"n": [0.0, -0.0, 0e-400, 5e-324]}', "float") == {"n": [0.0, 0.0, 0.0, 5e-324]}
    with pytest.raises(BadInput, match="1e400 is beyond the largest float"):
        decode(b'{"c":1e400}', "float")


@given(NUMBERS)
def test_numbers_keep_their_value(value: Any) -> None:
    assert Decimal(str(decode_any(encode(value)))) == Decimal(str(value))


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON))
def test_text_that_was_read_is_written_as_it_was(document: dict[str, Any]) -> None:
    once = encode(decode(encode(document)))
    assert encode(decode(once)) == once


# -- the text of the log -----------------------------------------------------------------------------------------


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON))
def test_a_document_comes_back_from_the_log_with_its_types(document: dict[str, Any]) -> None:
    assert repr(decode(store(document))) == repr(document)


@given(st.lists(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON), max_size=3))
def test_documents_are_read_together_as_each_alone(documents: list[dict[str, Any]]) -> None:
    texts = [store(one) for one in documents]
    assert repr(list(map(decoder_of(texts), texts))) == repr(documents)


@pytest.mark.parametrize("text", [b'{"a":"$5"}', b'{"a":{"$oid":"0"}}', b'{"a":1.5}'])
def test_documents_without_tagged_numbers_are_read_without_a_step_of_ours(text: bytes) -> None:
    assert decoder_of([text]) is not decode_plain
    assert decoder_of([text, b'{"a":{"$numberDouble":"1.5"}}']) is decode_plain


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, b"1"),
        (1.0, b'{"$numberDouble":"1.0"}'),
        (-0.0, b'{"$numberDouble":"-0.0"}'),
        (1e22, b'{"$numberDouble":"1e+22"}'),
        (math.inf, b'{"$numberDouble":"Infinity"}'),
        (-math.inf, b'{"$numberDouble":"-Infinity"}'),
        (math.nan, b'{"$numberDouble":"NaN"}'),
        (np.float64(1.5), b'{"$numberDouble":"1.5"}'),
        (Decimal("1.20"), b"1.20"),
        (Decimal("1E+5"), b"1E+5"),
        (Decimal("5"), b'{"$numberDecimal":"5"}'),
        (Decimal("-0"), b'{"$numberDecimal":"-0"}'),
        ({"$numberDecimal": "NaN"}, b'{"$numberDecimal":"NaN"}'),
    ],
)
def test_the_text_of_the_log_says_which_kind_a_number_is(value: Any, text: bytes) -> None:
    assert store({"v": value, "deep": [value]}) == b'{"v":' + text + b',"deep":[' + text + b"]}"
    back = decode(store({"v": value}))["v"]
    assert repr(back) == repr(value.item() if isinstance(value, np.float64) else value)


def test_text_of_others_that_says_double_means_a_float() -> None:
    read = decode(b'{"a": {"$numberDouble": "1.10"}, "b": [{"$numberDouble" : 2.5}], "c": {"$numberDecimal": "7"}}')
    assert repr(read) == "{'a': 1.1, 'b': [2.5], 'c': Decimal('7')}"
    for other in ({"$numberDouble": "many"}, {"$numberDouble": True}, {"$numberDouble": "1", "note": 2}, {"$numberDecimal": 1}):
        text = encode({"v": other})
        assert decode(text) == ({"v": Decimal(1)} if other == {"$numberDecimal": 1} else {"v": other})


def test_a_document_that_is_a_number_by_its_only_field_stays_a_document() -> None:
    assert decode(b'{"$numberDouble": "1.5"}') == {"$numberDouble": "1.5"}
    assert unmarked(b'{"$numberDouble":"1.5"}') == b'{"$numberDouble":"1.5"}'
    assert decode_any(b'{"$numberDouble": "1.5"}') == 1.5


def test_text_for_others_has_plain_numbers_and_no_null_for_what_is_none() -> None:
    document = {"a": 1.0, "b": -0.0, "c": Decimal("5"), "d": None, "e": [math.nan, {"f": -math.inf}]}
    text = b'{"a":1.0,"b":-0.0,"c":5,"d":null,"e":[{"$numberDouble":"NaN"},{"f":{"$numberDouble":"-Infinity"}}]}'
    assert encode(document) == text
    assert encode_lines([document, {"n": None}]) == text + b'\n{"n":null}\n'
    assert canonical({"x": math.nan}) == b'{"x":{"$numberDouble":"NaN"}}'


def test_logged_text_for_others_is_the_same_but_for_numbers_in_extended_json() -> None:
    odd = b'{ "a": 1.10, "b": 1e5 }'
    assert unmarked(odd) == odd
    assert unmarked(odd + b"\n" + store({"f": 0.5, "d": Decimal("1.10"), "w": Decimal(5)})) == odd + b'\n{"f":0.5,"d":1.10,"w":5}'
    assert (
        unmarked(b'{"a":{"$numberDouble":"1"},"b":{"$numberDouble":"-0"},"c":[{"$numberDouble": "2.50"}]}')
        == b'{"a":1.0,"b":-0.0,"c":[2.5]}'
    )
    assert unmarked(store({"f": 1e22, "n": math.nan})) == encode({"f": 1e22, "n": math.nan})


@given(st.lists(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON), max_size=4))
def test_logged_text_for_others_has_the_values_of_the_documents(documents: list[dict[str, Any]]) -> None:
    lines = unmarked(b"\n".join(map(store, documents))).split(b"\n")
    assert [canonical(decode(one)) for one in lines if one] == [canonical(decode(encode(one))) for one in documents]


@pytest.mark.parametrize("text", ['{"$numberDouble":"1.5"}', 'x{"', '"$numberDouble":"1.5"}', '\\{"$numberDouble":"1.5"}'])
def test_text_that_looks_like_a_tagged_number_stays_text(text: str) -> None:
    assert decode(unmarked(store({"t": text, text: [text]}))) == {"t": text, text: [text]}


def test_fields_that_are_moved_about_keep_their_text() -> None:
    assert field_by_field([b'{"a":{"$numberDouble":"1.0"},"b":1.10}'], lambda data: data | {"c": 1}) == [
        b'{"a":{"$numberDouble":"1.0"},"b":1.10,"c":1}'
    ]


def test_tags_of_every_number_are_understood_by_any_reader_of_json() -> None:
    key = [1, 1.5, Decimal("1.20"), math.nan]
    text = encode(tagged(key, every=True))
    assert text == b'[1,{"$numberDouble":"1.5"},{"$numberDecimal":"1.20"},{"$numberDouble":"NaN"}]'
    assert repr(revived(decode_any(text))) == repr(key)


def test_numbers_that_came_as_text_are_decimals_however_they_were_read() -> None:
    assert repr(from_text({"a": 1.25, "b": [Decimal("1.20")], "c": {"$numberDouble": "1.5"}, "d": True, "e": 1})) == (
        "{'a': Decimal('1.25'), 'b': [Decimal('1.20')], 'c': 1.5, 'd': True, 'e': 1}"
    )


def test_a_document_nested_deeper_than_we_can_walk_is_stored_all_the_same() -> None:
    text = b'{"a":' * 700 + b"1.10" + b"}" * 700
    assert store(decode_plain(text)) == text
    assert encode(as_json(decode_plain(text))) == text


@pytest.mark.parametrize(
    "value",
    [
        {"$oid": "507f1f77bcf86cd799439011"},
        {"$date": "2024-02-29T12:00:00.000Z"},
        {"$date": {"$numberLong": "-62135596800000"}},
        {"$binary": {"base64": "AAEC", "subType": "04"}},
        {"$binary": "AAEC", "$type": "00"},
        {"$numberDecimal": "NaN"},
        {"$timestamp": {"t": 1, "i": 2}},
        {"$regularExpression": {"pattern": "^a", "options": "i"}},
        {"$regex": "^a", "$options": "i"},
        {"$symbol": "s"},
        {"$uuid": "3b241101-e2bb-4255-8caf-4136c566a962"},
        {"$minKey": 1},
        {"$code": "f()", "$scope": {"x": 1}},
        {"$undefined": True},
    ],
)
def test_extended_json_passes_unchanged(value: dict[str, Any]) -> None:
    document = {"v": value, "deep": [{"v": value}]}
    assert decode(encode(document)) == document
    assert extended(document) == document


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[1]",
        b"1",
        b"null",
        b'{"a":',
        b'{"a":"\xff"}',
        b'{"\xc3":1}',
        b'{"a":"\\ud800"}',
        b'{"a":NaN}',
        b'{"a":1e99999999999999999999}',
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"{} {}",
    ],
)
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match="no JSON"):
        decode(data)


def test_any_value_is_read_with_the_same_care() -> None:
    assert decode_any("[1.10]") == [Decimal("1.10")]
    with pytest.raises(BadInput):
        decode_any(b"\xff")
    with pytest.raises(BadInput):
        decode_any("1e99999999999999999999")


@given(st.permutations(["a", "b", "c"]))
def test_equal_documents_have_equal_canonical_bytes(names: list[str]) -> None:
    document = {name: dict.fromkeys(names, 1) for name in names}
    assert canonical(document) == b'{"a":{"a":1,"b":1,"c":1},"b":{"a":1,"b":1,"c":1},"c":{"a":1,"b":1,"c":1}}'


def test_canonical_tells_types_apart() -> None:
    assert len({canonical(value) for value in (1, "1", True, 1.5, "1.5", None, "null", [1], {"1": 1})}) == 9


# -- Python's own types ------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (datetime(2024, 2, 29, 12, 30, tzinfo=UTC), {"$date": "2024-02-29T12:30:00.000Z"}),
        (datetime(2024, 2, 29, 12, 30), {"$date": "2024-02-29T12:30:00.000Z"}),
        (datetime(2024, 2, 29, 1, tzinfo=timezone(timedelta(hours=2))), {"$date": "2024-02-28T23:00:00.000Z"}),
        (datetime(2024, 2, 29, 12, 30, 0, 1, tzinfo=UTC), {"$date": "2024-02-29T12:30:00.000001Z"}),
        (date(2024, 2, 29), {"$date": "2024-02-29T00:00:00.000Z"}),
        (time(12, 30), "12:30:00"),
        (timedelta(seconds=1.5), 1.5),
        (UUID("3b241101-e2bb-4255-8caf-4136c566a962"), {"$uuid": "3b241101-e2bb-4255-8caf-4136c566a962"}),
        (b"\x00\x01", {"$binary": {"base64": "AAE=", "subType": "00"}}),
        (bytearray(b"\x00"), {"$binary": {"base64": "AA==", "subType": "00"}}),
        (memoryview(b"\x00"), {"$binary": {"base64": "AA==", "subType": "00"}}),
        (float("-inf"), float("-inf")),
        (Decimal("Infinity"), {"$numberDecimal": "Infinity"}),
        (Decimal("sNaN"), {"$numberDecimal": "NaN"}),
        ((1, 2), [1, 2]),
        ({"b", "a"}, ["a", "b"]),
        (frozenset([3, 1]), [1, 3]),
        (np.int64(5), 5),
        (np.float64(1.5), 1.5),
        (np.bool_(True), True),
        (np.array([1, 2]), [1, 2]),
        (np.array([5]), [5]),
        (np.datetime64("2024-02-29T00:00:00.000000"), {"$date": "2024-02-29T00:00:00.000Z"}),
        (pd.Timestamp("2024-02-29", tz="UTC"), {"$date": "2024-02-29T00:00:00.000Z"}),
        (pd.NaT, None),
        (Colour.RED, "red"),
        (Size.BIG, 3),
        (Text("x"), "x"),
    ],
)
def test_pythons_types_become_extended_json(value: Any, written: Any) -> None:
    for made in (extended(value), extended({"v": value})["v"], extended([value])[0]):
        assert made == written
        assert type(made) is type(written)
        assert decode_any(store(made)) == written


def test_what_has_no_form_in_json_is_refused() -> None:
    with pytest.raises(BadInput, match="type object cannot"):
        extended({"v": object()})
    with pytest.raises(BadInput, match="key 1 of an object"):
        extended({1: 2})


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON))
def test_json_is_its_own_extended_form(document: dict[str, Any]) -> None:
    made = extended(document)
    assert made == document
    assert encode(made) == encode(document)


@given(st.datetimes(timezones=st.just(UTC)))
def test_dates_come_back(moment: datetime) -> None:
    assert native(extended(moment)) == moment


@given(st.binary())
def test_bytes_come_back(data: bytes) -> None:
    assert native(extended(data)) == data


@given(st.floats())
def test_floats_come_back(value: float) -> None:
    assert repr(decode_any(store(extended(value)))) == repr(value)
    assert repr(float(native(decode_any(encode(value))))) == repr(value)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ({"$numberLong": "12"}, 12),
        ({"$numberLong": 12}, 12),
        ({"$numberInt": "-1"}, -1),
        ({"$numberDecimal": "1.10"}, Decimal("1.10")),
        ({"$numberDouble": "1.5"}, 1.5),
        ({"$oid": "507f"}, "507f"),
        ({"$date": 0}, datetime(1970, 1, 1, tzinfo=UTC)),
        ({"$date": {"$numberLong": "1000"}}, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ({"$date": "2024-02-29T00:00:00Z"}, datetime(2024, 2, 29, tzinfo=UTC)),
        ({"$date": "2024-02-29"}, datetime(2024, 2, 29, tzinfo=UTC)),
        ({"$binary": base64.b64encode(b"hi").decode()}, b"hi"),
        ({"$binary": base64.b64encode(b"hi").decode(), "$type": "00"}, b"hi"),
        ({"$type": "00", "$binary": base64.b64encode(b"hi").decode()}, b"hi"),
    ],
)
def test_extended_json_becomes_pythons_types(value: Any, meant: Any) -> None:
    assert native(value) == meant
    assert type(native(value)) is type(meant)
    assert natives({"a": [value]}) == {"a": [meant]}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1},
        {"$date": "2024-02-29T00:00:00Z", "note": "somebody's own object"},
        {"$date": "soon"},
        {"$date": {"$numberLong": "99999999999999999999"}},
        {"$date": None},
        {"$binary": "not base64!"},
        {"$binary": {"subType": "00"}},
        {"$numberLong": 1.5},
        {"$numberLong": True},
        {"$numberDecimal": 1.1},
        {"$numberDecimal": "many"},
        {"$uuid": "no"},
        {"$uuid": 5},
        {"$oid": 5},
        {"$timestamp": {"t": 1, "i": 2}},
        [1],
        "text",
        None,
    ],
)
def test_what_has_no_type_of_pythons_stays(value: Any) -> None:
    assert native(value) == value


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (5, 5),
        (1.5, 1.5),
        (Decimal("1.10"), Decimal("1.10")),
        ("12", 12),
        (" -12 ", -12),
        ("+1.50", Decimal("1.50")),
        (".5", Decimal("0.5")),
        ("1e3", Decimal("1e3")),
        ("9" * 5000, Decimal("9" * 5000)),
        ({"$numberLong": "7"}, 7),
        ({"$numberDecimal": "7.0"}, Decimal("7.0")),
        (True, None),
        (None, None),
        ("", None),
        ("abc", None),
        ("1_000", None),
        ("NaN", None),
        ("Infinity", None),
        ("٣", None),
        ("1e99999999999999999999", None),
        ([1], None),
        ({"a": 1}, None),
    ],
)
def test_what_counts_as_a_number(value: Any, meant: Any) -> None:
    assert number(value) == meant
    assert type(number(value)) is type(meant)
