"""Events of feeds, and their bytes."""

from __future__ import annotations

import msgspec

from headwater.documents.change import EMPTY, ChangeRecord, ResourceChange
from headwater.documents.feed_event import FeedEvent, of_item, record_events, row_event, state_event
from headwater.documents.store import DocumentRow


def events() -> list[FeedEvent]:
    put = ResourceChange(method="put", revision=1, item="a", event=msgspec.Raw(b'{"n": 1,\n"m": 2}'))
    patch = ResourceChange(method="patch", revision=2, item="a", event=msgspec.Raw(b'{"n":3}'), body=msgspec.Raw(b'{"n":3,"m":2}'))
    delete = ResourceChange(method="delete", revision=3)
    record = ChangeRecord(uri="shop~", changes=(put, patch, delete))
    return record_events(record, time=7, partition=1, offset=9)


def test_a_change_is_told_with_the_exact_body_and_the_state_after_it() -> None:
    put, patch, delete = events()
    assert (put.name, put.path, put.item, put.revision, put.time) == ("feed:put", "shop~/a", "a", 1, 7)
    assert (patch.name, patch.body, patch.state) == ("feed:patch", b'{"n":3}', b'{"n":3,"m":2}')
    assert (delete.name, delete.path, delete.body, delete.state) == ("feed:delete", "shop~", bytes(EMPTY), b"")
    assert (delete.partition, delete.offset) == (1, 9)


def test_json_is_one_line() -> None:
    put, _, delete = events()
    assert b"\n" not in put.json()
    assert msgspec.json.decode(put.json()) == {
        "method": "feed:put", "path": "shop~/a", "revision": 1, "time": "1970-01-01T00:00:00.007Z",
        "body": {"n": 1, "m": 2}, "position": "1",
    }  # fmt: skip
    assert "body" not in msgspec.json.decode(delete.json())


def test_the_bytes_of_an_event_are_made_once() -> None:
    put = events()[0]
    assert put.sse() is put.sse()
    assert put.sse() == b"id: 1\nevent: feed:put\ndata: " + put.json() + b"\n\n"
    assert put.sse_at("x:1,2").startswith(b"id: x:1,2\nevent: feed:put\n")


def test_a_part_of_a_snapshot_has_no_position() -> None:
    row = row_event("shop~", DocumentRow("a", b"{}", 4, 1, 2))
    assert (row.name, row.path, row.revision, row.position, row.time) == ("snapshot:put", "shop~/a", 4, "", 2)
    assert row.sse().startswith(b"event: snapshot:put\n")
    end = FeedEvent(kind="end", path="shop~", revision=4)
    assert end.sse().startswith(b"id: 4\nevent: snapshot:end\n")
    assert FeedEvent(kind="reset", path="shop~", revision=4).sse().startswith(b"event: reset\n")


def test_the_state_after_a_change() -> None:
    put, patch, delete = (state_event(event) for event in events())
    assert (patch.name, patch.body, patch.revision) == ("snapshot:put", b'{"n":3,"m":2}', 2)
    assert (put.method, delete.method) == ("put", "delete")


def test_the_events_of_an_item() -> None:
    assert [event.revision for event in of_item(events(), "a")] == [1, 2, 3]
    assert [event.revision for event in of_item(events(), "b")] == [3]
