"""JSON bodies, byte for byte."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput, UnreadableRecord
from headwater.journal.action import Events, PayloadMetadata
from headwater.journal.event import NumberedEvent, Payload, PayloadKind
from headwater.journal.json_body import encode_json_body, json_events, json_expire_after

NOTHING = PayloadMetadata()


def of_json(text: bytes) -> Payload:
    return Payload(PayloadKind.JSON, text)


def test_a_body_has_these_bytes() -> None:
    events = [
        NumberedEvent(1, of_json(b'{"eur": 1.50}'), ("a", 'b"')),
        NumberedEvent(2, Payload(PayloadKind.TEXT, 'grün "x"\n'.encode())),
        NumberedEvent(3),
        NumberedEvent(4, of_json(b"null")),
    ]
    body = encode_json_body(events, PayloadMetadata(86_400_000, b"7"))
    assert (
        body
        == (
            '{"events":[{"seqNr":1,"tags":["a","b\\""],"payloadType":"json","payload":{"eur": 1.50}},'
            '{"seqNr":2,"tags":[],"payloadType":"text","payload":"grün \\"x\\"\\n"},'
            '{"seqNr":3,"tags":[]},'
            '{"seqNr":4,"tags":[],"payloadType":"json","payload":null}],'
            '"metadata":{"expireAfter":"1 day","data":7}}'
        ).encode()
    )
    assert json_events(body) == Events(tuple(events), PayloadMetadata(86_400_000, b"7"))


def test_null_is_a_payload_and_no_payload_is_none() -> None:
    events = json_events(b'{"events":[{"seqNr":1,"payload":null},{"seqNr":2},{"seqNr":3,"payloadType":"json"}]}').events
    assert [event.payload for event in events] == [of_json(b"null"), None, None]


@pytest.mark.parametrize("number", [b"1.0", b"1.50", b"1e400", b"-0", b"123456789012345678901234567890", b"0.1000000000000000000001"])
def test_numbers_keep_their_text(number: bytes) -> None:
    body = encode_json_body([NumberedEvent(1, of_json(b'{"n":%b}' % number))], NOTHING)
    assert json_events(body).events[0].payload == of_json(b'{"n":%b}' % number)


def test_older_and_foreign_forms_are_read() -> None:
    body = b' {"new":1, "events" : [ {"payload" : {"b":1,"a":2} , "seqNr":9, "payloadType":null, "more":[]} ], "metadata":null }'
    assert json_events(body) == Events((NumberedEvent(9, of_json(b'{"b":1,"a":2}')),))
    assert json_events(b'{"events":[{"seqNr":1,"payloadType":"text","payload":null}]}').events[0].payload is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"events":[]}',
        b'{"events":null}',
        b'{"events":[1]}',
        b'{"events":[{}]}',
        b'{"events":[{"seqNr":0}]}',
        b'{"events":[{"seqNr":9223372036854775808}]}',
        b'{"events":[{"seqNr":"1"}]}',
        b'{"events":[{"seqNr":' + b"9" * 5000 + b"}]}",
        b'{"events":[{"seqNr":1}],"metadata":{"expireAfter":' + b"9" * 5000 + b"}}",
        b'{"events":[{"seqNr":1,"tags":[1]}]}',
        b'{"events":[{"seqNr":1,"payloadType":"binary","payload":"AA=="}]}',
        b'{"events":[{"seqNr":1,"payloadType":"text","payload":7}]}',
        b'{"events":[{"seqNr":1,"payload":"\xff"}]}',
        b'{"events":[{"seqNr":1,"payload":1}],"metadata":[]}',
        b'{"events":[{"seqNr":1,"payload":1}],"metadata":{"expireAfter":"soon"}}',
        b'{"events":[{"seqNr":1,"payload":' + b"[" * 100_000,
        b'{"events":[{"seqNr":1}]}x',
    ],
)
def test_other_bodies_are_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        json_events(body)


@pytest.mark.parametrize(
    "event",
    [
        NumberedEvent(1, of_json(b"{")),
        NumberedEvent(1, of_json(b'1},{"seqNr":2')),
        NumberedEvent(1, Payload(PayloadKind.TEXT, b"\xff")),
        NumberedEvent(1, None, ("\ud800",)),
    ],
)
def test_what_readers_could_not_read_is_not_written(event: NumberedEvent) -> None:
    with pytest.raises(BadInput):
        encode_json_body([event], NOTHING)


def test_the_expiry_is_found_without_the_events() -> None:
    assert json_expire_after(b'{"events":[{"seqNr":1}],"metadata":{}}') is None
    assert json_expire_after(b'{"events":[{"seqNr":1}]}') is None
    assert json_expire_after(b'{"metadata":{"expireAfter":"1 second"},"events":[{"seqNr":"damaged"}]}') == 1_000
    assert json_expire_after(b'{"events":[],"metadata":{"expire\\u0041fter":250}}') == 250
    # the text `"metadata":{}` at the end of another field's name does not hide the metadata
    assert json_expire_after(b'{"metadata":{"expireAfter":250},"events":[],"a,\\"metadata":{}}') == 250
    with pytest.raises(UnreadableRecord):
        json_expire_after(b'{"metadata":{"expireAfter":"soon"}}')


@given(st.binary(max_size=80))
def test_bytes_are_a_body_or_unreadable(body: bytes) -> None:
    for reader in (json_events, json_expire_after):
        with suppress(UnreadableRecord):
            reader(body)
