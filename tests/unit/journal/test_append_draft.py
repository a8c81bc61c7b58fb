"""Drafts of Appends: the same records as the wire writes, whichever way they are made."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.core.units import Duration
from headwater.journal.action import Append, PayloadMetadata
from headwater.journal.append_draft import AppendDraft, PlainDraft, draft, duration_of, header_ending, payload_of, plain_draft
from headwater.journal.event import Event, NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import encode_events
from headwater.journal.metadata import NO_METADATA
from headwater.journal.wire import write_record
from headwater.log.record import Record

ENDING = header_ending("host", "1")


def expected(events: list[NumberedEvent], *, metadata: PayloadMetadata = NO_METADATA, header: bytes | None = None, **more: Any) -> Record:
    kind, body = encode_events(events, metadata)
    return write_record("a", Append(events[0].seq_nr, events[-1].seq_nr, kind, "host", "1", header), value=body, **more)


def json(text: bytes) -> Payload:
    return Payload(PayloadKind.JSON, text)


@pytest.mark.parametrize("payload", [{"n": 1}, [1, "ä"], 7, None, True, Decimal("1.20"), {}, msgspec.Raw(b'{"a": 1}')])
def test_one_event_is_written_as_the_wire_writes_it(payload: object) -> None:
    made = plain_draft("a", payload)
    assert isinstance(made, PlainDraft)
    record = made.record(7, ENDING)
    text = msgspec.json.Encoder(decimal_format="number").encode(payload)
    assert record == expected([NumberedEvent(7, json(text))])
    assert record == draft("a", [payload]).record(7, ENDING)
    assert made.digest(3) == draft("a", [payload]).digest(3)
    assert made.size >= len(record.value or b"") + len(record.headers[0][1] or b"")


def test_text_and_bytes_and_numbered_events_take_the_longer_way() -> None:
    for payload in ("text", b"bytes", Event(1)):
        assert isinstance(plain_draft("a", payload, ("host", "1")), AppendDraft)
    assert plain_draft("a", "text").record(1, ENDING) == expected([NumberedEvent(1, Payload(PayloadKind.TEXT, b"text"))])
    assert plain_draft("a", b"x", ("host", "1")).record(1, ENDING) == expected([NumberedEvent(1, Payload(PayloadKind.BINARY, b"x"))])


def test_several_events_share_a_record() -> None:
    made = draft("a", [1, Event("two", tags=("x",)), 3], tags=("all",))
    record = made.record(5, ENDING)
    tagged = [NumberedEvent(5, json(b"1"), ("all",)), NumberedEvent(6, Payload(PayloadKind.TEXT, b"two"), ("x", "all"))]
    assert record == expected([*tagged, NumberedEvent(7, json(b"3"), ("all",))])
    assert (made.count, made.first) == (3, 0)


def test_given_numbers_stay() -> None:
    made = draft("a", [Event(1, 4), Event(2, 9)])
    assert (made.first, made.last) == (4, 9)
    assert made.record(1, ENDING) == expected([NumberedEvent(4, json(b"1")), NumberedEvent(9, json(b"2"))])


def test_metadata_headers_and_expiry() -> None:
    made = draft("a", [1], headers={"k": "v"}, metadata={"m": 1}, header_metadata=[2], expire_after="1d", by=("host", "1"))
    about = PayloadMetadata(86_400_000, b'{"m":1}')
    own = (("headwater.x", b"y"),)
    assert made.record(1, ENDING, own) == expected(
        [NumberedEvent(1, json(b"1"))], metadata=about, header=b"[2]", headers=(("k", "v"),), own=own
    )


def test_other_requests_have_other_digests() -> None:
    made = [
        plain_draft("a", 1).digest(None),
        plain_draft("a", 1).digest(0),
        plain_draft("b", 1).digest(None),
        plain_draft("a", 2).digest(None),
        plain_draft("a", "1").digest(None),
        plain_draft("a", b"1").digest(None),
        draft("a", [1, 2]).digest(None),
        draft("a", [Event(1, 1)]).digest(None),
        draft("a", [1], tags=("t",)).digest(None),
        draft("a", [1], headers={"a": "b"}).digest(None),
        draft("a", [1], metadata=1).digest(None),
        draft("a", [1], expire_after="1d").digest(None),
    ]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize(
    "given",
    [
        {"given": []},
        {"given": [1], "tags": "abc"},
        {"given": [Event(1, 1), 2]},
        {"given": [Event(1, 2), Event(1, 2)]},
        {"given": [Event(1, 0)]},
        {"given": [1], "headers": {"journal.action": "x"}},
        {"given": [1], "headers": {"headwater.idempotency-key": "x"}},
        {"given": [1], "headers": [("a", "b")]},
        {"given": [1], "expire_after": 7},
        {"given": [1], "expire_after": "1 day"},
        {"given": [1], "metadata": object()},
        {"given": [{1j: 2}]},
        {"given": [msgspec.Raw(b"{")]},
        {"given": ["\ud800"]},
        {"given": [1], "tags": ("\ud800",)},
        {"given": [1] * 100_001},
    ],
)
def test_what_cannot_be_appended(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        draft("a", **given)


def test_json_that_is_nested_too_deep_is_refused_before_it_stops_readers() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(BadInput):
        plain_draft("a", deep)


def test_durations_and_payloads() -> None:
    assert (duration_of(None), duration_of("30d"), duration_of(Duration(5))) == (None, 30 * 86_400_000, 5)
    assert payload_of(bytearray(b"x")) == Payload(PayloadKind.BINARY, b"x")
