"""What the log of a queue still holds, decoded: each change of a row, in the order of the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headwater.queue.body import key_of
from headwater.queue.listing import change_detail
from headwater.queue.records import (
    ABSORB,
    CANCEL,
    DONE,
    DROP,
    EXPIRE,
    INSERT,
    MOST_ROWS,
    NAMES,
    NEXT,
    PAUSE,
    RESUME,
    Change,
    decode_record,
)
from headwater.wal.entries import LogEntry

_GOES = frozenset((DONE, EXPIRE, CANCEL, DROP, ABSORB))  # changes after which there is no row


class LoggedChange(NamedTuple):
    """One change of one row; of the queue itself where it is paused and goes on, without an id."""

    sequence: int
    offset: int
    date: int
    change: str
    id: int | None
    key: bytes | None
    """None: the log no longer holds the record that tells it."""
    detail: str


class LogHistory:
    """Decodes records that are given in their order."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, bytes]] = {}  # by slot: the id and the key of the row there

    def read(self, entry: LogEntry) -> Iterator[LoggedChange]:
        """The changes of a record. Errors: `Malformed`."""
        date, changes = decode_record(entry.payload)
        inserted = 0
        for change in changes:
            where = entry.sequence, entry.offset, date, NAMES[change.kind] if change.kind < len(NAMES) else ""
            if change.row is not None:
                id = entry.sequence * MOST_ROWS + inserted if change.kind == INSERT else change.row.id
                inserted += change.kind == INSERT
                self._rows[change.row.slot] = id, key_of(change.row.body)
                yield LoggedChange(*where, *self._rows[change.row.slot], change_detail(change))
            elif change.kind in (PAUSE, RESUME):
                yield LoggedChange(*where, None, None, "")
            elif change.kind <= ABSORB or change.kind == NEXT:
                yield from (LoggedChange(*where, id, key, change_detail(change)) for id, key in self._known(change))

    def _known(self, change: Change) -> Iterator[tuple[int, bytes | None]]:
        for slot, id in change.rows:
            known = self._rows.pop(slot, None) if change.kind in _GOES else self._rows.get(slot)
            yield id, known[1] if known is not None and known[0] == id else None
