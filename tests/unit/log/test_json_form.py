from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput
from headwater.log import json_form as wire
from headwater.log.record import Record, Topic, TopicSettings

maybe_bytes = st.none() | st.binary(max_size=40)
records = st.builds(
    Record,
    key=maybe_bytes,
    value=maybe_bytes,
    headers=st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
    timestamp=st.none() | st.integers(-(1 << 62), 1 << 62),
    mode=st.integers(0, 3),
    op=st.integers(0, 7),
)


@given(st.lists(records, min_size=1, max_size=5))
def test_what_a_program_sends_arrives_as_it_was(sent: list[Record]) -> None:
    assert wire.read_records(wire.send_records(sent), lines=True) == sent


@given(records, st.integers(0, (1 << 63) - 1), st.integers(-(1 << 62), 1 << 62))
def test_what_the_server_shows_a_program_reads_back(record: Record, offset: int, timestamp: int) -> None:
    record = msgspec.structs.replace(record, offset=offset, timestamp=timestamp)
    assert wire.read_shown(msgspec.json.encode(wire.show_record(record, "binary"))) == record


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"value": "caf\xc3\xa9"}', "café".encode()),
        (b'{"value": ""}', b""),
        (b'{"value": null}', None),
        (b'{"value": {"price": 1.10, "n": 12345678901234567890}}', b'{"price": 1.10, "n": 12345678901234567890}'),
        (b'{"value": [1, 2]}', b"[1, 2]"),
        (b'{"value": true}', b"true"),
        (b'{"value": {"$binary": "AP8="}}', b"\x00\xff"),
        (b'{"value": {"note": "$binary"}}', b'{"note": "$binary"}'),
    ],
)
def test_a_value_may_be_text_json_or_bytes(body: bytes, value: bytes | None) -> None:
    (record,) = wire.read_records(body, lines=False)
    assert record.value == value


@pytest.mark.parametrize("value", [b'{\n "a": [1,\r\n\n 2]\n}', b'\n{"a":[1,2]}\r\n'])
def test_a_value_over_several_lines_is_shown_in_one(value: bytes) -> None:
    """A line of an export, or the data of an event, would end in the middle of the record."""
    shown = msgspec.json.encode(wire.show_record(Record(key=None, value=value), "json"))
    assert b"\n" not in shown
    assert b"\r" not in shown
    assert msgspec.json.decode(shown)["value"] == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "truncated"),
        (b"{}", "neither key nor value"),
        (b'{"value": 1, "timestamp": 47904.5}', "whole number"),
        (b"nonsense", "malformed"),
        (b'{"value": 1} 2', "trailing"),
        (b'{"vlaue": 1}', "Did you mean 'value'?"),
        (b'"text"', "Expected"),
        (b"[1]", "Expected"),
        (b'{"value": "\xff"}', "not UTF-8 at byte 11"),
        (b'{"value": "\\ud800"}', "cannot be read"),
        (b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"key": 5}', "neither text nor null"),
        (b'{"key": {"a": 1}}', "neither text nor null"),
        (b'{"value": {"$binary": "A"}}', "no base64"),
        (b'{"value": {"$binary": "AP8=", "and": 1}}', "beside other things"),
        (b'{"value": {"$binary": 5}}', "beside other things"),
        (b'{"headers": {"h": 5}}', "neither text nor null"),
        (b'{"headers": [["h"]]}', "Expected"),
        (b'{"mode": "copied"}', "The modes are copy, sync, complete"),
        (b'{"mode": 4}', "from 0 to 3"),
        (b'{"op": 8}', "from 0 to 7"),
        (b'{"op": -1}', "from 0 to 7"),
        (b'{"timestamp": "yesterday"}', "is no time"),
        (b'{"timestamp": "2026-01-31T12:00:00"}', "is no time"),
        (b'{"timestamp": 9223372036854775808}', "out of range"),
        (b'{"timestamp": 99999999999999999999999999}', "out of range"),
    ],
)
def test_a_body_that_cannot_be_read_says_why(body: bytes, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        wire.read_records(body, lines=False)
    assert said in str(caught.value)
    assert caught.value.hint


def test_a_bad_line_is_named_by_its_number() -> None:
    with pytest.raises(BadInput, match=r"Line 3: .*truncated"):
        wire.read_records(b'{"value": 1}\n\n{"value":\n', lines=True)


def test_lines_may_be_empty_between_records() -> None:
    assert [record.value for record in wire.read_records(b'\n{"value": 1}\r\n\n{"value": 2}', lines=True)] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("decode", "shown"),
    [
        ("text", {"key": "k", "value": '{"a":1.10}', "headers": [["h", "v"]]}),
        ("json", {"key": "k", "value": msgspec.Raw(b'{"a":1.10}'), "headers": [["h", "v"]]}),
        ("hex", {"key": "6b", "value": "7b2261223a312e31307d", "headers": [["h", "76"]]}),
        ("binary", {"key": {"$binary": "aw=="}, "value": {"$binary": "eyJhIjoxLjEwfQ=="}, "headers": [["h", {"$binary": "dg=="}]]}),
    ],
)
def test_a_record_is_shown_as_asked(decode: wire.Decoder, shown: dict[str, object]) -> None:
    record = Record(b"k", b'{"a":1.10}', (("h", b"v"),), timestamp=0, offset=7)
    got = wire.show_record(record, decode)
    assert msgspec.json.encode({name: got[name] for name in shown}) == msgspec.json.encode(shown)
    assert (got["offset"], got["timestamp"], got["mode"], got["op"]) == (7, "1970-01-01T00:00:00.000Z", "copy", 0)


@pytest.mark.parametrize("decode", ["text", "json"])
def test_bytes_that_do_not_fit_are_shown_as_binary(decode: wire.Decoder) -> None:
    got = wire.show_record(Record(None, b"\xff", timestamp=0, offset=0), decode)
    assert got["value"] == {"$binary": base64.b64encode(b"\xff").decode()}
    assert got["key"] is None


def test_a_topic_survives_being_shown() -> None:
    topic = Topic("t", 3, TopicSettings(segment=1000, period=90_000, max_record=1 << 20), "g")
    sent = msgspec.json.encode(wire.show_topic(topic))
    assert wire.read_topic(msgspec.json.decode(sent, type=wire.ShownTopic)) == topic


class _Nothing:
    """A decoder that reads nothing."""

    def decode(self, body: bytes) -> None:
        raise msgspec.ValidationError("no")


def outcome(body: bytes) -> object:
    try:
        return wire.read_records(body, lines=True)
    except BadInput as error:
        return error.message, error.hint


@given(st.lists(records, min_size=1, max_size=2))
def test_the_quick_reading_of_a_line_gives_the_same_records(sent: list[Record]) -> None:
    body = wire.send_records(sent)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wire, "_plain", _Nothing())
        expected = outcome(body)
    assert outcome(body) == expected


PLAIN = b'{"key":{"$binary":"a2V5"},"value":{"$binary":"YQ=="},"headers":[["h",null]],"timestamp":null,"mode":0,"op":0}\n'


@pytest.mark.parametrize(
    "body",
    [
        PLAIN,
        PLAIN + b"\n",
        b"\n" + PLAIN,
        PLAIN + PLAIN,
        PLAIN.rstrip(),
        PLAIN + b" ",
        PLAIN.replace(b"YQ==", b"YQ="),
        PLAIN.replace(b"YQ==", b"a2V5="),
        PLAIN.replace(b"YQ==", b"a-_="),
        PLAIN.replace(b"YQ==", b"\xff"),
        PLAIN.replace(b'"h"', b'"\xff"'),
        PLAIN.replace(b'"mode":0', b'"mode":4'),
        PLAIN.replace(b'"mode":0', b'"mode":"sync"'),
        PLAIN.replace(b'"op":0', b'"op":8'),
        PLAIN.replace(b'"op":0', b'"op":1.0'),
        PLAIN.replace(b'"op":0', b'"op":true'),
        PLAIN.replace(b'"timestamp":null', b'"timestamp":17'),
        PLAIN.replace(b'"op":0', b'"op":0,"x":1'),
        PLAIN.replace(b'"$binary":"YQ=="', b'"$binary":"YQ==","x":1'),
        PLAIN.replace(b'{"$binary":"YQ=="}', b"null"),
        PLAIN.replace(b'{"$binary":"YQ=="}', b'{"a":1}'),
        PLAIN.replace(b'"key":{"$binary":"a2V5"},', b""),
        PLAIN[:-4],
        b"",
        b"\n",
        b"[" * 2000,
    ],
)
def test_the_quick_reading_of_a_line_refuses_nothing_and_allows_nothing_more(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    got = outcome(body)
    monkeypatch.setattr(wire, "_plain", _Nothing())
    assert got == outcome(body)


def test_a_line_of_a_command_is_told_without_http() -> None:
    with pytest.raises(BadInput, match="It cannot be read") as no:
        wire.read_line(b"{bad")
    assert "openapi" not in no.value.hint
    with pytest.raises(BadInput, match="surrogate"):
        wire.read_line(b'{"value": "\\ud800"}')


def test_binary_is_read_back_and_nothing_else_is_binary() -> None:
    assert wire.binary_of(wire.show_bytes(b"\x00\xff", "binary")) == b"\x00\xff"
    for wrong in ("text", None, {}, {"$binary": 5}, {"$binary": "?"}, {"$binary": "", "more": 1}):
        with pytest.raises(BadInput):
            wire.binary_of(wrong)
