"""Records with encrypted payloads: kafka-journal reads them, and the key's holder reads what they hold."""

from __future__ import annotations

import pytest

from headwater.journal.action import Append
from headwater.journal.append_draft import draft, plain_draft
from headwater.journal.cipher import AesGcm
from headwater.journal.envelope import EntityCipher, is_sealed, read_envelope
from headwater.journal.event import Event, PayloadKind
from headwater.journal.event_bodies import decode_events, expire_after_of
from headwater.journal.sealed_record import sealed_ending, sealed_record
from headwater.journal.wire import read_record
from headwater.log.record import Record

BY = ("host", "1")
ENTITY = EntityCipher(AesGcm(), b"i" * 16, b"k" * 32, topic="journal-bank", id="alice")


def read(record: Record) -> tuple[Append, list[tuple[int, object, tuple[str, ...]]]]:
    found = read_record(Record(record.key, record.value, record.headers, 5, offset=3))
    assert found is not None
    assert isinstance(found.action, Append)
    events = decode_events(found.action.payload_type, found.value or b"").events
    assert all(is_sealed(event.payload) for event in events)
    return found.action, [
        (event.seq_nr, ENTITY.open(read_envelope(event.payload.data), event.seq_nr).value(), event.tags)  # type: ignore[union-attr]
        for event in events
    ]


@pytest.mark.parametrize("drafted", [plain_draft("alice", {"a": "SECRET"}), draft("alice", [{"a": "SECRET"}])], ids=["plain", "other"])
def test_one_event(drafted: object) -> None:
    record = sealed_record(drafted, ENTITY, 5, by=BY, ending=sealed_ending(*BY))  # type: ignore[arg-type]
    action, events = read(record)
    assert action == Append(5, 5, "binary", "host", "1")
    assert events == [(5, {"a": "SECRET"}, ())]
    assert b"SECRET" not in (record.value or b"") + b"".join(value or b"" for _, value in record.headers)


def test_every_kind_of_payload_with_tags_headers_and_metadata() -> None:
    given = ["täxt", b"\0bytes", {"a": [1]}, None]
    made = draft(
        "alice", [*given, Event("own", tags=["x"])], tags=["t"], headers={"h": "v"}, metadata={"m": 1}, header_metadata=2, expire_after="1d"
    )
    record = sealed_record(made, ENTITY, 1, by=BY, ending=sealed_ending(*BY), own=(("headwater.key", b"k"),))
    action, events = read(record)
    assert action == Append(1, 5, "binary", "host", "1", b"2")
    assert events == [*((n, value, ("t",)) for n, value in enumerate(given, 1)), (5, "own", ("x", "t"))]
    assert dict(record.headers)["headwater.key"] == b"k"
    assert expire_after_of("binary", record.value or b"") == 86_400_000


def test_numbers_that_events_bring() -> None:
    made = draft("alice", [Event("a", 3), Event("b", 9)])
    assert read(sealed_record(made, ENTITY, 3, by=BY, ending=sealed_ending(*BY)))[1] == [(3, "a", ()), (9, "b", ())]


def test_texts_are_the_same_on_every_way() -> None:
    for payload in ("", 'quote " and \\', "\u2028", "line\nend"):
        assert read(sealed_record(draft("alice", [payload]), ENTITY, 1, by=BY, ending=sealed_ending(*BY)))[1] == [(1, payload, ())]


def test_ending_without_a_writer() -> None:
    assert sealed_ending(None, None) == b',"payloadType":"binary","metadata":{}}}'
    assert PayloadKind.BINARY == 1
