from __future__ import annotations

import base64

import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.journal.append_rows import event_rows
from headwater.journal.change import EventRow
from headwater.journal.cipher import AesGcm
from headwater.journal.envelope import MARK, EntityCipher, read_envelope
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.exported import (
    ExportLine,
    append_lines,
    deleted_append,
    head_line,
    imported_append,
    read_export_line,
    same_events,
)
from headwater.journal.head import Head
from headwater.wire import json

ROWS = [
    EventRow(
        3, 5000, 0, 7, "host", "1", None, ("a", "b"), '{"header":{"data":1},"payload":{"expireAfter":"1 day","data":{"m":null}}}', p, h
    )
    for p, h in [(Payload(PayloadKind.JSON, b'{"x": 1.50,\n "y":"\\u00e9"}'), (("k", "v"),))]
] + [
    EventRow(4, 6000, 0, 9, None, None, None, (), "{}", Payload(PayloadKind.BINARY, b"\x00\xff"), ()),
    EventRow(5, 6000, 0, 9, None, None, None, ("t",), "{}", Payload(PayloadKind.TEXT, 'tëxt "'.encode()), ()),
    EventRow(9, 6000, 0, 9, None, None, None, (), "{}", None, ()),
    EventRow(10, 7000, 0, 11, None, None, None, (), "{}", Payload(PayloadKind.JSON, b"null"), ()),
]


def lines() -> list[ExportLine]:
    return list(append_lines("id", ROWS, 2))


def test_an_append_comes_back_as_it_was() -> None:
    found: list[EventRow] = []
    previous = 2
    for number, line in enumerate(lines(), 1):
        read = read_export_line(json.encode(line), number)
        draft = imported_append(read, number)
        assert read.previous == previous
        record = msgspec.structs.replace(draft.record(0, b""), offset=ROWS[len(found)].offset)
        rows = event_rows(record, 0)
        assert same_events(read, draft, rows)
        found += rows
        previous = draft.last
    stripped = [msgspec.structs.replace(row, payload=None) for row in found]
    assert stripped == [msgspec.structs.replace(row, payload=None) for row in ROWS]
    assert [row.payload for row in found][1:] == [row.payload for row in ROWS][1:]
    assert found[0].payload == Payload(PayloadKind.JSON, b'{"x": 1.50, "y":"\\u00e9"}')  # a line has no line ends


def test_any_other_content_is_told_apart() -> None:
    line = read_export_line(json.encode(lines()[1]), 1)
    draft = imported_append(line, 1)
    for changed in (
        msgspec.structs.replace(ROWS[1], timestamp=6001),
        msgspec.structs.replace(ROWS[1], payload=Payload(PayloadKind.BINARY, b"\x00")),
        msgspec.structs.replace(ROWS[1], tags=("z",)),
        msgspec.structs.replace(ROWS[1], origin="other"),
        msgspec.structs.replace(ROWS[1], headers=(("k", "v"),)),
        msgspec.structs.replace(ROWS[1], offset=8),
    ):
        assert not same_events(line, draft, [changed, *ROWS[2:4]])
    assert not same_events(line, draft, ROWS[1:3])
    assert same_events(line, draft, ROWS[1:4])


def test_a_head_without_events_becomes_an_event_that_is_to_be_deleted() -> None:
    head = Head(0, 5, 100, 7, 7, 1000, 2000, 86_400_000)
    line = read_export_line(json.encode(head_line("id", head, 0)), 4)
    draft = deleted_append(line, 4)
    assert (draft.first, draft.last, draft.timestamp) == (7, 7, 2000)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{", "Line 3: "),
        (b"[]", "Line 3: "),
        (b'"x"', "Line 3: "),
        (b"\xff", "Line 3: "),
        (b'{"evnets":[]}', "Line 3: "),
        (b'{"format":"headwater-journals/2"}', "not known"),
        (b'{"events":[{"seq_nr":1}]}', "names no journal"),
        (b'{"id":"a"}', "neither events nor a head"),
        (b'{"id":"a","events":[{"seq_nr":1}],"head":{"seq_nr":1}}', "or both"),
        (b'{"id":"a","events":[{"seq_nr":0}]}', "Line 3: "),
        (b'{"id":"a","events":[{"seq_nr":9223372036854775808}]}', "Line 3: "),
        (b'{"id":"a","events":[{"seq_nr":2},{"seq_nr":1}]}', "do not ascend"),
        (b'{"id":"a","previous":1,"events":[{"seq_nr":1}]}', "do not ascend"),
        (b'{"id":"a","events":[{"seq_nr":1,"payload":1}]}', "without a type"),
        (b'{"id":"a","events":[{"seq_nr":1,"payload":1,"payload_type":"text"}]}', "no text"),
        (b'{"id":"a","events":[{"seq_nr":1,"payload":1,"payload_type":"binary"}]}', "no .binary"),
        (b'{"id":"a","events":[{"seq_nr":1,"payload_type":"json"}]}', "no payload"),
        (b'{"id":"a","events":[{"seq_nr":1,"payload":1,"payload_type":"xml"}]}', "no payload"),
        (b'{"id":"a","expire_after":"soon","events":[{"seq_nr":1}]}', "Line 3: "),
        (b'{"id":"a","created":"soon","events":[{"seq_nr":1}]}', "Line 3: "),
        (b'{"id":"a","timestamp":-5,"events":[{"seq_nr":1}]}', "Line 3: -5 is no time"),
        (b'{"id":"a","timestamp":"yesterday","events":[{"seq_nr":1}]}', "no time"),
        (b'{"id":"a","headers":{"journal.action":"x"},"events":[{"seq_nr":1}]}', "Line 3: "),
        (b'{"id":"","events":[{"seq_nr":1}]}', "Line 3: "),
    ],
)
def test_a_bad_line_is_named(text: bytes, says: str) -> None:
    with pytest.raises(BadInput, match=says) as told:
        imported_append(read_export_line(text, 3), 3)
    assert told.value.message.startswith("Line 3")
    assert told.value.hint


def test_an_append_that_is_encrypted_keeps_everything_else() -> None:
    text = b'{"id":"a","timestamp":"2026-11-18T00:00:00Z","origin":"there","version":"9","headers":{"k":"v"},"expire_after":"3d","events":['
    text += b'{"seq_nr":2,"payload":"x","payload_type":"text","tags":["t"]},{"seq_nr":5}]}'
    draft = imported_append(read_export_line(text, 1), 1)
    entity = EntityCipher(AesGcm(), b"k" * 16, b"d" * 32, topic="journal-bank", id="a")
    clear, sealed = draft.record(2, b""), draft.sealed(entity)
    assert (sealed.key, sealed.timestamp) == (clear.key, clear.timestamp)
    first, second = event_rows(msgspec.structs.replace(sealed, offset=0), 0)
    plain, _ = event_rows(msgspec.structs.replace(clear, offset=0), 0)
    assert first.payload is not None
    assert entity.open(read_envelope(first.payload.data), 2) == plain.payload
    assert (second.seq_nr, second.payload) == (5, None)
    for name in ("seq_nr", "timestamp", "origin", "version", "tags", "metadata", "headers"):
        assert getattr(first, name) == getattr(plain, name)


def test_an_envelope_is_not_imported() -> None:
    shown = base64.b64encode(MARK + b"x" * 60)
    line = read_export_line(b'{"id":"a","events":[{"seq_nr":1,"payload":{"$binary":"%b"},"payload_type":"binary"}]}' % shown, 3)
    with pytest.raises(BadInput, match=r"Line 3: .*mark encrypted"):
        imported_append(line, 3)
