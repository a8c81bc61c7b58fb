"""Rows as JSON: what is sent is read, what is shown is read, and what is neither is refused with a reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.core.errors import BadInput, NotFound
from headwater.queue import json_form
from headwater.queue.answers import ShownClaim, ShownDeadRow, ShownRow
from headwater.queue.json_form import LARGEST_DATE, data_bytes, data_of, key_bytes, read_date, read_row, read_rows, send_rows, show_date
from headwater.queue.row import BINARY, JSON, NewRow, Row
from headwater.queue.values import ClaimedRow, DeadRow

JSONS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)
DATA = st.one_of(
    st.tuples(JSONS.filter(lambda one: not (isinstance(one, dict) and "$binary" in one)).map(msgspec.json.encode), st.just(JSON)),
    st.tuples(st.binary(max_size=30), st.just(BINARY)),
)
DATES = st.integers(1, LARGEST_DATE)
KEYS = st.one_of(st.text(min_size=1, max_size=9).map(str.encode), st.binary(min_size=1, max_size=9))
NEW = st.builds(
    lambda key, data, **given: NewRow(key=key, data=data[0], form=data[1], **given),
    KEYS,
    DATA,
    priority=st.one_of(st.none(), st.integers(0, 255)),
    process_date=st.one_of(st.none(), DATES),
    delay=st.one_of(st.none(), st.integers(0, 2**40)),
    insertion_date=st.one_of(st.none(), DATES),
    expiration_date=st.one_of(st.just(0), DATES),
    lane=st.text(max_size=5).map(str.encode),
)
ROWS = st.builds(
    lambda key, data, **given: Row(key=key, data=data[0], form=data[1], **given),
    KEYS,
    DATA,
    **{name: st.integers(0, 2**62) for name in ("id", "timeout_counter", "attempts", "failures")},
    **dict.fromkeys(("insertion_date", "process_date"), DATES),
    **{name: st.one_of(st.just(0), DATES) for name in ("expiration_date", "start_processing_date")},
    **{name: st.text(max_size=5) for name in ("error", "worker", "group")},
    priority=st.integers(0, 255),
    status=st.sampled_from(["W", "P"]),
    lane=st.binary(max_size=5),
    follow_up=st.booleans(),
)


def sent_and_read(shown: Any, kind: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(shown), type=kind)


@given(st.lists(NEW, min_size=1, max_size=3))
def test_rows_that_are_sent_are_read(rows: list[NewRow]) -> None:
    assert read_rows(send_rows(rows), lines=False) == rows
    lines = b"\n".join(send_rows([row]) for row in rows) + b"\n\n"
    assert read_rows(lines, lines=True) == rows


@given(ROWS, DATES)
def test_rows_that_are_shown_are_read(row: Row, until: int) -> None:
    assert read_row(sent_and_read(json_form.show_row(row), ShownRow)) == row
    claim = sent_and_read(json_form.show_claim(ClaimedRow(row, "1-2", until)), ShownClaim)
    assert (read_row(claim).lease_until, claim.token, read_row(claim).key) == (until, "1-2", row.key)
    dead = sent_and_read(json_form.show_dead(DeadRow(row, "attempts", until, "why", "who")), ShownDeadRow)
    assert (dead.reason, dead.date, dead.error, dead.worker, dead.id) == ("attempts", show_date(until), "why", "who", row.id)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "truncated"),
        (b"5", "Expected `object | array`"),
        (b'{"data": 1}', "no key"),
        (b'{"key": null}', "no key"),
        (b'{"key": ""}', "no key"),
        (b'{"key": 5}', "key"),
        (b'{"key": "a", "prio": 1}', "prio"),
        (b'{"key": "a", "priority": 1.5}', "whole number"),
        (b'{"key": "a", "priority": "1"}', "priority"),
        (b'{"key": "a", "delay": "soon"}', "duration"),
        (b'{"key": "a", "delay": 5}', "delay"),
        (b'{"key": "a", "process_date": "2026-01-01"}', "2026-01-01"),
        (b'{"key": "a", "process_date": -1}', "out of range"),
        (b'{"key": "a", "process_date": 99999999999999999999}', "out of range"),
        (b'{"key": "a", "insertion_date": "2026-01-01T00:00:00"}', "no time"),
        (b'{"key": "a", "data": {"$binary": "?"}}', "base64"),
        (b'{"key": "a", "data": {"$binary": "AA==", "x": 1}}', "binary"),
        (b'{"key": "a", "data": "\xff"}', "UTF-8"),
        (b'{"key": "a", "data": {"$binary": "\\q"}}', "cannot be read"),
        (b'{"key": "a", "data": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested"),
        (b'{"key": "\\ud800"}', "surrogate"),
    ],
)
def test_a_body_that_cannot_be_read_says_why(body: bytes, said: str) -> None:
    for written in (body, b"[" + body + b"]"):
        if body:
            with pytest.raises(BadInput):
                read_rows(written, lines=False)
            with pytest.raises(BadInput, match=r"Line 2|UTF-8"):
                read_rows(b'{"key": "good"}\n' + body, lines=True)
    with pytest.raises(BadInput) as refused:
        [row] = read_rows(body, lines=False)
        key_bytes(row.key)
    assert said in f"{refused.value.message} {refused.value.hint}"


def test_data_are_kept_as_they_were_sent_but_for_line_ends() -> None:
    [row] = read_rows(b'{"key": "a", "data": {"n":\n 1.00000000000000000001}}', lines=False)
    assert row.data == b'{"n": 1.00000000000000000001}'


def test_dates_are_shown_and_read() -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=UTC)
    assert show_date(read_date(moment, "d")) == "2026-01-31T12:00:00.005Z"
    assert read_date("2026-01-31T13:00:00.005+01:00", "d") == read_date(moment, "d") == read_date(1769860800005, "d")
    assert (show_date(0), show_date(1), show_date(LARGEST_DATE)) == (None, "1970-01-01T00:00:00.001Z", "9999-12-31T23:59:59.999Z")
    for wrong in (datetime(2026, 1, 1), "tomorrow", 1.5, None, True, -1, LARGEST_DATE + 1, datetime(1960, 1, 1, tzinfo=UTC)):
        with pytest.raises(BadInput):
            read_date(wrong, "d")


@example(1001)
@given(DATES)
def test_a_datetime_is_read_to_the_millisecond(ms: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert read_date(moment.astimezone(timezone(timedelta(hours=-12))), "d") == ms


def test_values_of_python() -> None:
    assert (key_bytes("\u00e4"), key_bytes(b"\xff")) == ("\u00e4".encode(), b"\xff")
    for key in ("", b"", None, 5, "\ud800"):
        with pytest.raises(BadInput):
            key_bytes(key)
    assert (data_bytes({"a": 1}), data_bytes(bytearray(b"x"))) == ((b'{"a":1}', JSON), (b"x", BINARY))
    for data in (object(), {"$binary": "AA=="}, "\ud800"):
        with pytest.raises(BadInput):
            assert data_of(*data_bytes(data)) == data
    assert (data_of(b'{"a":1}', JSON), data_of(b"x", BINARY)) == ({"a": 1}, b"x")
    assert (json_form.shown_key(b"a"), json_form.shown_key(b"\xff")) == ("a", b"\xff")


@given(KEYS)
def test_keys_in_addresses(key: bytes) -> None:
    assert json_form.key_in_path(json_form.path_key(key)) == key
    with pytest.raises(NotFound):
        json_form.key_in_path("")
