from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from headwater.core.errors import BadInput, NotFound
from headwater.queue import json_form
from headwater.queue.answers import ShownClaim, ShownRow
from headwater.queue.json_form import (
    LARGEST_DATE,
    claim_fields,
    data_bytes,
    data_of,
    is_list,
    key_bytes,
    key_in_path,
    path_key,
    read_date,
    read_row,
    read_rows,
    send_rows,
    show_claim,
    show_date,
    show_row,
)
from headwater.queue.row import BINARY, JSON, NewRow, Row
from headwater.queue.values import ClaimedRow

ROW = Row(65_536, b"k", b'{"n":1.10}', JSON, 10, 1_700_000_000_123, 1_700_000_000_124, 0, "W")


DATES = st.integers(1, 253_402_300_799_999)


def test_rows_are_read_as_they_were_sent() -> None:
    rows = [
        NewRow(key=b"a"),
        NewRow(key=b"\xff", data=b"\x00", form=BINARY, priority=0),
        NewRow(key=b"c", data=b'{"n":1.10}', process_date=5, expiration_date=9, insertion_date=4, lane=b"x"),
        NewRow(key=b"d", delay=1500),
    ]
    for row in rows:
        assert read_rows(send_rows([row]), lines=False) == [row]
    assert read_rows(send_rows(rows), lines=False) == rows
    assert read_rows(b"".join(send_rows([row]) + b"\n\n" for row in rows), lines=True) == rows
    assert is_list(b" [", lines=False)
    assert is_list(b"{", lines=True)
    assert not is_list(b"{", lines=False)


def test_digits_stay_and_line_ends_go() -> None:
    (row,) = read_rows(b'{"key": "k", "data": {"n": 1.10,\n "t": "a\\nb"}}', lines=False)
    assert row.data == b'{"n": 1.10, "t": "a\\nb"}'


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"key": ""}', b'{"key": null}', b'{"key": 5}', b'{"key": "k", "data": }', b'{"key": "k", "x": 1}', b'{"key": "\xff"}',
     b'{"key": "k", "priority": 1.5}', b'{"key": "k", "data": {"$binary": "?"}}', b'{"key": "k", "data": {"$binary": "AA==", "b": 1}}',
     b'{"key": "k", "delay": "5"}', b'{"key": "k", "process_date": "soon"}', b'[{"key": "k"}, 5]', b'"k"'],
)  # fmt: skip
def test_what_is_no_row_is_bad_input(body: bytes) -> None:
    with pytest.raises(BadInput):
        read_rows(body, lines=False)
    with pytest.raises(BadInput, match=r"Line 2|not UTF-8 at byte 25"):
        read_rows(b'{"key": "good"}\n' + (body.replace(b"\n", b"") or b"x"), lines=True)


@given(DATES, DATES, st.binary(min_size=1), st.binary())
def test_a_row_is_read_as_it_was_shown(first: int, second: int, key: bytes, data: bytes) -> None:
    row = Row(
        7, key, data, BINARY, 0, first, second, first, "P", second, 3, 4, 5, lane=key, error="e", worker="w", group="g", follow_up=True
    )
    written = msgspec.json.encode(show_claim(ClaimedRow(row, "t", second)))
    shown = msgspec.json.decode(written, type=ShownClaim)
    assert read_row(shown) == msgspec.structs.replace(row, lease_until=second)


def test_a_plain_row_has_the_ten_columns() -> None:
    assert msgspec.json.encode(show_row(ROW)) == (
        b'{"id":65536,"key":"k","data":{"n":1.10},"priority":10,"insertion_date":"2023-11-14T22:13:20.123Z",'
        b'"process_date":"2023-11-14T22:13:20.124Z","expiration_date":null,"status":"W","start_processing_date":null,"timeout_counter":0}'
    )
    assert msgspec.json.decode(msgspec.json.encode(show_row(ROW)), type=ShownRow).id == 65_536


def test_dates() -> None:
    assert show_date(0) is None
    assert (
        read_date("1970-01-01T00:00:01Z", "d") == read_date(1000, "d") == read_date(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "d") == 1000
    )
    for wrong in (True, 1.5, "soon", "2026-01-01", datetime(2026, 1, 1), -1, 10**18):
        with pytest.raises(BadInput):
            read_date(wrong, "d")


def test_values_of_python() -> None:
    assert key_bytes("ä") == "ä".encode()
    assert data_bytes({"n": 1}) == (b'{"n":1}', JSON)
    assert data_bytes(b"x") == (b"x", BINARY)
    assert data_of(b'{"n":1}', JSON) == {"n": 1}
    for wrong in ("", b"", 5, "\ud800"):
        with pytest.raises(BadInput):
            key_bytes(wrong)
    for key in (b"k", b"\xff", b'{"$binary"'):
        assert key_in_path(path_key(key)) == key


JSONS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)


DATA = st.one_of(
    st.tuples(JSONS.filter(lambda one: not (isinstance(one, dict) and "$binary" in one)).map(msgspec.json.encode), st.just(JSON)),
    st.tuples(st.binary(max_size=30), st.just(BINARY)),
)


MOMENTS = st.integers(1, LARGEST_DATE)


KEYS = st.one_of(st.text(min_size=1, max_size=9).map(str.encode), st.binary(min_size=1, max_size=9))


NEW = st.builds(
    lambda key, data, **given: NewRow(key=key, data=data[0], form=data[1], **given),
    KEYS,
    DATA,
    priority=st.one_of(st.none(), st.integers(0, 255)),
    process_date=st.one_of(st.none(), MOMENTS),
    delay=st.one_of(st.none(), st.integers(0, 2**40)),
    insertion_date=st.one_of(st.none(), MOMENTS),
    expiration_date=st.one_of(st.just(0), MOMENTS),
    lane=st.text(max_size=5).map(str.encode),
)


@given(st.lists(NEW, min_size=1, max_size=3))
def test_rows_that_are_sent_are_read(rows: list[NewRow]) -> None:
    assert read_rows(send_rows(rows), lines=False) == rows
    lines = b"\n".join(send_rows([row]) for row in rows) + b"\n\n"
    assert read_rows(lines, lines=True) == rows


@example(1001)
@given(MOMENTS)
def test_a_datetime_is_read_to_the_millisecond(ms: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert read_date(moment.astimezone(timezone(timedelta(hours=-12))), "d") == ms


@given(KEYS)
def test_keys_in_addresses(key: bytes) -> None:
    assert json_form.key_in_path(json_form.path_key(key)) == key
    with pytest.raises(NotFound):
        json_form.key_in_path("")


def test_numbers_that_json_cannot_hold_are_refused_and_words_that_look_like_them_are_not() -> None:
    for wrong in (
        math.nan,
        [math.inf],
        {"a": {"b": (-math.inf,)}},
        Decimal("NaN"),
        [Decimal("1e999")],
        {"n": None, "d": Decimal("-Infinity")},
    ):
        with pytest.raises(BadInput, match="JSON cannot hold") as refused:
            data_bytes(wrong)
        assert refused.value.hint
    for right in (None, "null", {"NaN": None}, ["Infinity", "NaN", 1e308], {"n": Decimal("1.10")}):
        assert data_bytes(right)[1] == JSON
    assert data_bytes(msgspec.Raw(b'{"I": null}')) == (b'{"I": null}', JSON)


def test_a_claim_is_written_as_it_is_shown() -> None:
    plain = Row(1, b"k", b"\x00", BINARY, 5, 1000, 2000, 0, "P", 3000, attempts=1, lease_until=9000, worker="w", group="g")
    rare = replace(plain, key=b"\xff", data=b"{}", form=JSON, lane=b"l", error="no", failures=2, schedule="every 1h", expiration_date=7)
    for row in (plain, rare):
        claim = ClaimedRow(row, "1-2", 9000)
        assert msgspec.json.encode(claim_fields(claim)) == msgspec.json.encode(show_claim(claim))
        assert read_row(show_claim(claim)) == replace(row, update_date=0)
