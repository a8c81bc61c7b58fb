from __future__ import annotations

import pytest

from headwater.core.errors import UnreadableRecord
from headwater.journal.action import Append, PayloadMetadata
from headwater.journal.append_rows import append_rows
from headwater.journal.event import NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import decode_events, encode_events
from headwater.journal.metadata import metadata_column

JSON, TEXT, BINARY = (Payload(kind, b'"a"') for kind in (PayloadKind.JSON, PayloadKind.TEXT, PayloadKind.BINARY))
USERS = (("trace", "7"),)


@pytest.mark.parametrize("payload", [JSON, TEXT, BINARY, None, Payload(PayloadKind.JSON, b"null")])
@pytest.mark.parametrize("metadata", [PayloadMetadata(), PayloadMetadata(86_400_000, b'{"by":1}')])
@pytest.mark.parametrize("header", [None, b"[2]"])
def test_rows_hold_what_the_body_and_the_header_say(payload: Payload | None, metadata: PayloadMetadata, header: bytes | None) -> None:
    given = [NumberedEvent(7, payload, ("x", "y")), NumberedEvent(8, JSON)]
    kind, body = encode_events(given, metadata)
    rows, expire_after = append_rows(Append(7, 8, kind, "here", "1.0", header), body, 1, 42, 99, USERS)
    assert expire_after == metadata.expire_after
    decoded = decode_events(kind, body).events
    assert [(row.seq_nr, row.payload, row.tags) for row in rows] == [(event.seq_nr, event.payload, event.tags) for event in decoded]
    for row in rows:
        assert (row.partition, row.offset, row.timestamp, row.origin, row.version) == (1, 42, 99, "here", "1.0")
        assert row.metadata == metadata_column(header, metadata)
        assert (row.headers, row.record_id) == (USERS, None)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("json", b"no"),
        ("json", b'{"events":[]}'),
        ("json", b'{"events":[{"seqNr":1,"payloadType":"odd","payload":1}]}'),
        ("binary", b""),
        ("odd", b'{"events":[{"seqNr":1}]}'),
    ],
)
def test_a_body_that_is_none_is_unreadable(kind: str, body: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        append_rows(Append(1, 1, kind), body, 0, 0, 0, ())
