"""Events and heads as JSON, and back."""

from __future__ import annotations

import msgspec
import pytest

from headwater.journal.action import Append, Delete, Mark, Purge
from headwater.journal.answers import ShownFollowedEvent, ShownJournalEvent
from headwater.journal.change import EventRow
from headwater.journal.event import RESERVED, Payload, PayloadKind
from headwater.journal.head import Head
from headwater.journal.shown import encode_event, events_of, followed_event, read_shown, show_followed, show_head, show_trail_record
from headwater.journal.wire import write_record
from headwater.log.record import Record
from headwater.wire import json

PAYLOADS = [
    (Payload(PayloadKind.JSON, b'{"a":\n1}'), {"a": 1}),
    (Payload(PayloadKind.JSON, b"null"), None),
    (Payload(PayloadKind.TEXT, "ä".encode()), "ä"),
    (Payload(PayloadKind.BINARY, b"\x00\xff"), b"\x00\xff"),
    (None, None),
]


@pytest.mark.parametrize(("payload", "value"), PAYLOADS)
def test_an_event_is_the_same_here_and_over_http(payload: Payload | None, value: object) -> None:
    metadata = '{"header":{"data":{"h":1}},"payload":{"expireAfter":"1 day","data":[1]}}'
    row = EventRow(3, 1_800_000_000_123, 1, 7, "host", "1", None, ("x",), metadata, payload, (("k", "v"),))
    [here] = events_of([row])
    assert (here.payload, here.metadata, here.header_metadata, here.headers) == (value, [1], {"h": 1}, {"k": "v"})
    written = encode_event(row)
    assert b"\n" not in written
    assert read_shown(json.decoder(ShownJournalEvent)(written)) == here
    shown = json.decoder(ShownFollowedEvent)(json.encode(show_followed(row, "a", "1,2")))
    assert read_shown(shown) == followed_event(row, "a", "1,2")


def test_a_head() -> None:
    head = Head(0, 7, 10, 5, 9, 0, 1, 86_400_000)
    shown = show_head("a", head)
    assert (shown.seq_nr, shown.delete_to, shown.expire_after, shown.created) == (9, 9, "1d", "1970-01-01T00:00:00.000Z")


def test_records_of_a_trail() -> None:
    def record(action: Append | Delete | Purge | Mark, offset: int) -> Record:
        made = write_record("a", action, value=b"x" if isinstance(action, Append) else None)
        return msgspec.structs.replace(made, offset=offset, timestamp=0)

    shown = [show_trail_record(record(action, at), 1, 7) for at, action in enumerate((Append(1, 2), Delete(3), Purge(), Mark("m")))]
    told = [(one.action, one.copied, one.first, one.last, one.to, one.mark) for one in shown if one is not None]
    assert told == [
        ("append", True, 1, 2, None, None), ("delete", True, None, None, 3, None),
        ("purge", False, None, None, None, None), ("mark", False, None, None, None, "m"),
    ]  # fmt: skip
    bad = show_trail_record(Record(b"a", None, ((RESERVED, b"{"),), 0, offset=5), 9, 7)
    assert bad is not None
    assert (bad.action, bool(bad.problem)) == ("unreadable", True)
    assert show_trail_record(Record(b"a", None, (), 0, offset=5), 9, 7) is None
