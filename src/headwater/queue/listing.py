"""Lists rows: those that wait or are processed, dead ones, and what the log still holds of a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.core.errors import NotFound
from headwater.queue.body import fields, key_of, process_of
from headwater.queue.columns import BLOCKED, DEAD, HELD, PROCESSING
from headwater.queue.data_place import length_of
from headwater.queue.fold import QueueFold
from headwater.queue.records import INSERT, MOST_ROWS, NAMES, REASONS, Change, decode_record
from headwater.queue.recurrence import following_run
from headwater.queue.row import Row
from headwater.queue.row_view import row_at
from headwater.queue.schedule import schedule_of
from headwater.queue.values import DeadRow, HistoryEntry, ScheduledRow, State
from headwater.wal.entries import LogEntry

MOST_SHOWN = 32 << 20
"""Bytes of data after which a page of rows ends, whatever its limit."""
ALL = 1 << 62
END = -1
"""There are no further rows."""
_SHOWN = 10  # ids of rows that a row waits for, in its history


def rows_of(fold: QueueFold, state: State | None, prefix: bytes, after: int, limit: int, *, now: int, most: int | None = None) -> list[Row]:
    """Rows that wait or are processed, by id, those above `after`. `most`: bytes of their data after which no more are given;
    `MOST_SHOWN`, unless it is said."""
    return find_rows(fold, state, prefix, after, limit, MOST_SHOWN if most is None else most, now=now)[0]


def find_rows(
    fold: QueueFold, state: State | None, prefix: bytes, after: int, limit: int, room: int, *, now: int, at_once: int = ALL
) -> tuple[list[Row], int]:
    """`rows_of` among the next `at_once` rows; and the id behind which to go on, or `END`. `room`: bytes of data, as `most`."""
    columns, rows = fold.columns, list[Row]()
    slots = fold.index.slots(after)
    if state == "processing":  # they are few
        slots = iter(sorted((slot for slot in fold.claims.by_slot if columns.ids[slot] > after), key=columns.ids.__getitem__))
    for place, slot in enumerate(slots, 1):
        passes = columns.states[slot] != DEAD and key_of(columns.bodies[slot]).startswith(prefix)
        if passes and (state is None or state_of(fold, slot, now) == state):
            rows.append(row_at(fold, slot))
            room -= length_of(rows[-1].data)
        if len(rows) >= limit or room <= 0 or place >= at_once:
            return rows, columns.ids[slot]
    return rows, END


def ends_early(rows: Iterable[Row]) -> bool:
    """Whether a page of rows has ended because they are large: there may be more."""
    return sum(length_of(row.data) for row in rows) >= MOST_SHOWN


def state_of(fold: QueueFold, slot: int, now: int) -> State:
    """In which of the states of `Counts` a row is."""
    columns = fold.columns
    if columns.states[slot] == PROCESSING:
        return "processing"
    if columns.states[slot] in (HELD, BLOCKED):
        return "held"
    return "future" if process_of(columns.bodies[slot]) > now else "due"


def schedules_of(fold: QueueFold, now: int) -> list[ScheduledRow]:
    """The rows that come again, by key."""
    columns, rows = fold.columns, list[ScheduledRow]()
    for slot, extras in columns.extras.items():
        key = key_of(columns.bodies[slot])
        if extras.recurs and fold.by_key.find(key) == slot:
            run = following_run(extras, now) if columns.states[slot] == PROCESSING else process_of(columns.bodies[slot])
            rows.append(ScheduledRow(columns.ids[slot], key, schedule_of(extras.schedule), run))
    return sorted(rows, key=lambda row: row.key)


def slot_of_id(fold: QueueFold, id: int) -> int:
    """The slot of a row that waits or is processed; -1: there is none of this id."""
    slot = next(fold.index.slots(id - 1), -1) if id > 0 else -1
    return slot if slot >= 0 and fold.columns.ids[slot] == id and fold.columns.states[slot] != DEAD else -1


def dead_ids(fold: QueueFold, prefix: bytes, reason: str, after: int = -1) -> Iterator[int]:
    """The ids of dead rows above `after` that a filter lets pass, in order."""
    return (id for id in fold.index.dead(fold.deaths, after) if _passes(fold, id, prefix, reason))


def _passes(fold: QueueFold, id: int, prefix: bytes, reason: str) -> bool:
    death = fold.deaths[id]
    return reason in ("", REASONS[death.reason]) and key_of(fold.columns.bodies[death.slot]).startswith(prefix)


def find_dead(
    fold: QueueFold, prefix: bytes, reason: str, after: int, limit: int, room: int, *, at_once: int = ALL
) -> tuple[list[DeadRow], int]:
    """Dead rows by id, those above `after`, among the next `at_once` ones; and the id behind which to go on, or `END`. `room`: bytes of
    their data after which no more are given."""
    rows = list[DeadRow]()
    for place, id in enumerate(fold.index.dead(fold.deaths, after), 1):
        if _passes(fold, id, prefix, reason):
            rows.append(dead_row(fold, id))
            room -= length_of(rows[-1].row.data)
        if len(rows) >= limit or room <= 0 or place >= at_once:
            return rows, id
    return rows, END


def dead_row(fold: QueueFold, id: int) -> DeadRow:
    """Errors: `NotFound`."""
    death = fold.deaths.get(id)
    if death is None:
        raise NotFound(f"There is no dead row of the id {id}.", hint="List dead rows with `headwater queue dead list`.")
    row = row_at(fold, death.slot)
    return DeadRow(row, REASONS[death.reason], death.date, death.error or row.error, death.worker)


class KeyHistory:
    """Finds the changes of a key among records that are given in their order."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._rows: dict[int, int] = {}  # slots of the key's rows, and their ids
        self.entries: list[HistoryEntry] = []

    def read_all(self, entries: Iterable[LogEntry]) -> None:
        """`read` of many."""
        for entry in entries:
            self.read(entry.sequence, entry.payload)

    def read(self, sequence: int, payload: bytes) -> None:
        """Look at a record. Errors: `Malformed`."""
        now, changes = decode_record(payload)
        inserted = 0
        for change in changes:
            id = self._id_of(change, sequence * MOST_ROWS + inserted)
            inserted += change.kind == INSERT
            for row_id in [id] if id is not None else self._known(change):
                self.entries.append(HistoryEntry(sequence, now, NAMES[change.kind], row_id, change_detail(change)))

    def _id_of(self, change: Change, new: int) -> int | None:
        """The id of a row that the change holds whole, where it is one of the key."""
        row = change.row
        if row is None:
            return None
        id = new if change.kind == INSERT else row.id
        if key_of(row.body) == self._key:
            self._rows[row.slot] = id
            return id
        if self._rows.get(row.slot) not in (None, id):
            del self._rows[row.slot]
        return None

    def _known(self, change: Change) -> Iterator[int]:
        return (id for slot, id in change.rows if self._rows.get(slot) == id)


def change_detail(change: Change) -> str:
    """What a change says beside its rows."""
    if change.row is not None:
        row = fields(change.row.body)
        after = change.row.extras.get("after", ())
        waits = f", after {', '.join(map(str, after[:_SHOWN]))}{', …' * (len(after) > _SHOWN)}" if after else ""
        return f"priority {row.priority}, {length_of(row.data)} bytes{waits}"
    return ", ".join(str(value) for value in change.values if value != "")
