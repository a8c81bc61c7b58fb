"""Events of feeds, and the bytes in which they are sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from headwater.documents.change import ChangeRecord, Method, ResourceChange
from headwater.documents.store import DocumentRow
from headwater.wire import json
from headwater.wire.times import show_time

FeedKind = Literal["feed", "snapshot", "end", "reset", "enter", "change", "leave"]
_BREAKS = bytes.maketrans(b"\r\n", b"  ")


class FeedEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event of a feed. Followers share it, and its bytes, which are made once. Time in ms.

    `feed`: a change, with the exact body of the write. `snapshot`: the state of a document or item before the feed goes on (put), or that
    an item which the snapshot has given is gone (delete). `end`: the snapshot is whole, and is the state at `revision`. `reset`: what
    follows does not continue what the follower had: forget it; a snapshot follows. `enter`, `change`, `leave`: of a live query.
    """

    kind: FeedKind
    method: Method | Literal[""] = ""
    path: str
    item: str = ""
    revision: int = 0
    """Of the document or collection after the change; of a snapshot's item, the item's own."""
    body: bytes = b""
    time: int = 0
    partition: int = -1
    offset: int = -1
    """Where its record lies in the log; -1 for what is no change."""
    state: bytes = b""
    """The state of the document or item after a change; empty where nothing is left."""
    message: bytes = b""
    """As JSON, once it was asked for; kept by `json`."""
    frame: bytes = b""
    """As a server-sent event, once it was asked for; kept by `sse`."""

    @property
    def name(self) -> str:
        """The name of the event: feed:put, snapshot:end, reset, ..."""
        if self.kind == "end":
            return "snapshot:end"
        return f"{self.kind}:{self.method}" if self.kind in ("feed", "snapshot") else self.kind

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return len(self.body) + (0 if self.state is self.body else len(self.state)) + len(self.path)

    @property
    def position(self) -> str:
        """What to give as `after` to go on behind it in the feed of its document or collection; empty within a snapshot."""
        return "" if self.kind in ("snapshot", "reset") else str(self.revision)

    def json(self) -> bytes:
        """The event as JSON on one line."""
        return self.json_at(self.position)

    def json_at(self, position: str) -> bytes:
        """As `json`, with the position of a feed of many documents."""
        if not self.message:
            body = msgspec.Raw(self.body) if self.body else None
            message = json.encode(_Message(self.name, self.path, self.revision, show_time(self.time or None), body))
            msgspec.structs.force_setattr(self, "message", message.translate(_BREAKS))  # a break stands only between tokens of JSON
        return b'%b,"position":"%b"}' % (self.message[:-1], position.encode()) if position else self.message

    def sse(self) -> bytes:
        """The event as a server-sent event. Its id is the position, for `Last-Event-ID`; a part of a snapshot has none, so that a client
        that was cut off within one begins it anew."""
        if not self.frame:
            msgspec.structs.force_setattr(self, "frame", self.sse_at(self.position))
        return self.frame

    def sse_at(self, position: str) -> bytes:
        """As `sse`, with the position of a feed of many documents."""
        mark = b"id: %b\n" % position.encode() if position else b""
        return b"%bevent: %b\ndata: %b\n\n" % (mark, self.name.encode(), self.json_at(position))


class _Message(msgspec.Struct, frozen=True, omit_defaults=True):
    method: str
    path: str
    revision: int
    time: str | int | None = None
    body: msgspec.Raw | None = None


def change_event(uri: str, change: ResourceChange, *, time: int, partition: int, offset: int) -> FeedEvent:
    """The event of a change."""
    body = bytes(change.event)
    return FeedEvent(
        kind="feed",
        method=change.method,
        path=f"{uri}/{change.item}" if change.item else uri,
        item=change.item,
        revision=change.revision,
        body=body,
        time=time,
        partition=partition,
        offset=offset,
        state=bytes(change.body) or body,
    )


def record_events(record: ChangeRecord, *, time: int, partition: int, offset: int) -> list[FeedEvent]:
    """The events of a record, in the order of their revisions."""
    return [change_event(record.uri, change, time=time, partition=partition, offset=offset) for change in record.changes]


def of_item(events: Iterable[FeedEvent], item: str) -> list[FeedEvent]:
    """The events that change an item: its own, and the deletion of its collection."""
    return [event for event in events if event.item == item or (not event.item and event.method == "delete")]


def state_event(event: FeedEvent) -> FeedEvent:
    """The state after a change, as a part of a snapshot: what the item is now, or that it is gone."""
    return FeedEvent(
        kind="snapshot",
        method="put" if event.state else "delete",
        path=event.path,
        item=event.item,
        revision=event.revision,
        body=event.state,
        time=event.time,
        state=event.state,
    )


def row_event(uri: str, row: DocumentRow) -> FeedEvent:
    """A row of a store, as a part of a snapshot."""
    return FeedEvent(
        kind="snapshot",
        method="put",
        path=f"{uri}/{row.item}" if row.item else uri,
        item=row.item,
        revision=row.revision,
        body=row.body,
        time=row.modified,
        state=row.body,
    )
