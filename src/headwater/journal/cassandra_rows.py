"""Heads and events as rows of kafka-journal's tables, and back."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

import msgspec

from headwater.core.errors import Conflict, Damaged
from headwater.journal.change import EventRow
from headwater.journal.event import KIND_NAMES, Payload, PayloadKind
from headwater.journal.head import Head
from headwater.journal.row_times import own_time
from headwater.journal.segment_jumps import Jumps
from headwater.journal.store import segment_of
from headwater.store import Row
from headwater.store.cassandra.library import library

BEFORE = "headwater.before"
"""The property of a head that says what it was at the pointer from which the last change was begun."""
JUMPS = "headwater.jumps"
"""The property of a head that names long stretches of empty segments."""
_KINDS = {name: kind for kind, name in KIND_NAMES.items()}
_DAY_MS = 86_400_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class Before(msgspec.Struct, frozen=True, array_like=True):
    """A head at the pointer from which a change was begun. What a life never changes is left out. `offset` -1: there was no head, or the
    change purges it, so that whoever reads on from that pointer finds the Purge."""

    pointer: int
    partition: int = -1
    offset: int = -1
    seq_nr: int = 0
    delete_to: int | None = None
    updated: int = 0
    expire_after: int | None = None
    expire_on: int | None = None  # days since year 1


class StoredHead(msgspec.Struct, frozen=True):
    """A head as it lies in `metajournal`, perhaps ahead of the pointer. `segment`: where it lies."""

    head: Head
    segment: int
    before: Before | None = None
    jumps: Jumps = ()

    def at(self, pointer: int, partition: int) -> Head | None:
        """The head at a pointer of its partition. A change that is under way has moved some heads already.

        Errors: `Conflict` where two changes have been applied since the pointer was read, `Damaged` where a task wrote it that was late.
        """
        head, before = self.head, self.before
        if head.partition != partition or head.offset <= pointer or before is None:
            return head
        if before.pointer > pointer:
            raise changed()
        if before.pointer < pointer:
            raise Damaged(
                f"A head of partition {partition} has the offset {head.offset}, ahead of the pointer {pointer}, and was written at the "
                f"pointer {before.pointer}: two processes have copied the partition at once.",
                hint="Copy it anew: `headwater journal rebuild`.",
            )
        if before.offset < 0:
            return None
        return self._as_before(before)

    def intended(self, pointer: int) -> Head | None:
        """The head before a Purge was begun from this pointer and hid its events; None: none was."""
        before = self.before
        if before is None or before.pointer != pointer or before.offset < 0 or self.head.offset != before.offset:
            return None
        return self._as_before(before)

    def _as_before(self, before: Before) -> Head:
        return msgspec.structs.replace(
            self.head,
            partition=before.partition,
            offset=before.offset,
            seq_nr=before.seq_nr,
            delete_to=before.delete_to,
            updated=before.updated,
            expire_after=before.expire_after,
            expire_on=date.fromordinal(before.expire_on) if before.expire_on else None,
        )


def changed() -> Conflict:
    """The error of a read that another process's change has overtaken."""
    return Conflict("The store's copy was changed while it was read.", hint="Read it again.")


def before_of(pointer: int, stored: Head | None) -> str:
    """The property `BEFORE` of a head that is written while the pointer is `pointer`."""
    if stored is None:
        return msgspec.json.encode(Before(pointer)).decode()
    expire_on = stored.expire_on.toordinal() if stored.expire_on else None
    before = Before(
        pointer, stored.partition, stored.offset, stored.seq_nr, stored.delete_to, stored.updated, stored.expire_after, expire_on
    )
    return msgspec.json.encode(before).decode()


def stored_head(segment: int, columns: Row) -> StoredHead:
    """A head from the columns of the statement `head`."""
    partition, offset, size, seq_nr, delete_to, created, updated, expire_after, expire_on, record_id, origin, properties = columns
    head = Head(
        partition=partition,
        offset=offset,
        segment_size=size,
        seq_nr=seq_nr,
        delete_to=delete_to,
        created=created or 0,
        updated=updated or 0,
        expire_after=_milliseconds(expire_after),
        expire_on=_day(expire_on),
        record_id=record_id,
        origin=origin,
    )
    properties = properties or {}
    before, jumps = properties.get(BEFORE), properties.get(JUMPS)
    return StoredHead(
        head,
        segment,
        msgspec.json.decode(before, type=Before) if before else None,
        msgspec.json.decode(jumps, type=Jumps) if jumps else (),
    )


def head_values(
    topic: str, segment: int, id: str, head: Head, *, before: str, time: int, replaces: bool, jumps: Jumps = ()
) -> Sequence[object]:
    """The values of the statement `insert_head`. `replaces`: a row is there, whose columns must go where the head has none."""
    none = None if replaces else _unset()
    duration = none if head.expire_after is None else _duration(head.expire_after)
    created = datetime.fromtimestamp(head.created / 1000, UTC).date()
    return (
        topic,
        segment,
        id,
        head.partition,
        head.offset,
        head.segment_size,
        head.seq_nr,
        none if head.delete_to is None else head.delete_to,
        head.created,
        created,
        head.updated,
        duration,
        none if head.expire_on is None else head.expire_on,
        none if head.record_id is None else head.record_id,
        none if head.origin is None else head.origin,
        {BEFORE: before, JUMPS: msgspec.json.encode(jumps).decode()} if jumps else {BEFORE: before},
        time,
    )


def row_values(topic: str, id: str, head: Head, row: EventRow, base: int) -> Sequence[object]:
    """The values of the statement `insert_row`. Columns without a value are left out: a null would be kept as a deletion."""
    unset = _unset()
    return (
        id,
        topic,
        segment_of(row.seq_nr, head.segment_size),
        row.seq_nr,
        row.timestamp,
        row.partition,
        row.offset,
        unset if row.origin is None else row.origin,
        unset if row.version is None else row.version,
        unset if head.record_id is None else head.record_id,
        set(row.tags) if row.tags else unset,
        row.metadata,
        *payload_columns(row.payload, unset),
        dict(row.headers) if row.headers else unset,
        base + row.offset,
    )


def event_row(columns: Row) -> EventRow:
    """An event from the columns of the statement `rows`, without our headers. Errors: `Damaged` for an unknown type of payload."""
    seq_nr, timestamp, partition, offset, origin, version, record_id, tags, metadata, kind, text, binary, headers = columns
    payload = None if kind is None else payload_of_columns(kind, text, binary, f"The event {seq_nr}")
    users: tuple[tuple[str, str], ...] = ()
    if headers:
        timestamp, users = own_time(timestamp, headers)
    return EventRow(
        seq_nr,
        timestamp,
        partition,
        offset,
        origin,
        version,
        record_id,
        tuple(tags) if tags else (),
        metadata or "{}",
        payload,
        users,
    )


def payload_columns(payload: Payload | None, missing: object) -> tuple[object, object, object]:
    """The columns `payload_type`, `payload_txt` and `payload_bin`. `missing`: what stands for no value."""
    if payload is None:
        return missing, missing, missing
    if payload.kind is PayloadKind.BINARY:
        return KIND_NAMES[payload.kind], missing, payload.data
    return KIND_NAMES[payload.kind], payload.data.decode(), missing


def payload_of_columns(kind: str, text: str | None, binary: bytes | None, whose: str = "A snapshot") -> Payload:
    """The payload of these columns. Errors: `Damaged` for a type that nobody writes."""
    if kind not in _KINDS:
        raise Damaged(f"{whose} has a payload of the type {kind!r}.", hint="Copy the topic anew: `headwater journal rebuild`.")
    return Payload(_KINDS[kind], (binary or b"") if kind == "binary" else (text or "").encode())


def same_life(record_id: uuid.UUID | None, head: Head) -> bool:
    """Whether a row belongs to a head's life. Rows of a head without an id, as older versions of kafka-journal made them, all do."""
    return head.record_id is None or record_id == head.record_id


@cache
def _unset() -> Any:
    """The value that leaves a column out. Kept: this is asked for each row."""
    return library().query.UNSET_VALUE


def _duration(milliseconds: int) -> Any:
    from cassandra.util import Duration

    days, rest = divmod(milliseconds, _DAY_MS)
    return Duration(0, days, rest * 1_000_000)


def _milliseconds(duration: Any) -> int | None:
    if duration is None:
        return None
    return int((duration.months * 30 + duration.days) * _DAY_MS + duration.nanoseconds // 1_000_000)


def _day(day: Any) -> date | None:
    """A day; the last one that Python knows for those behind it."""
    if day is None:
        return None
    ordinal = _EPOCH_DAY + int(day.days_from_epoch)
    return date.fromordinal(min(max(ordinal, 1), date.max.toordinal()))
