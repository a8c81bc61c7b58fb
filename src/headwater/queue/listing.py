"""Lists rows: those that wait or are processed, dead ones, and what the log still holds of a key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headwater.core.errors import NotFound
from headwater.queue.body import fields, key_of, process_of
from headwater.queue.columns import DEAD, FREE, HELD, PROCESSING
from headwater.queue.fold import QueueFold
from headwater.queue.records import INSERT, MOST_ROWS, NAMES, REASONS, Change, decode_record
from headwater.queue.recurrence import following_run
from headwater.queue.row import Row
from headwater.queue.row_view import row_at
from headwater.queue.schedule import schedule_of
from headwater.queue.values import DeadRow, HistoryEntry, ScheduledRow, State


def rows_of(fold: QueueFold, state: State | None, prefix: bytes, after: int, limit: int, *, now: int) -> list[Row]:
    """Rows that wait or are processed, by id, those above `after`."""
    columns, found = fold.columns, list[Row]()
    states, ids = np.frombuffer(columns.states, np.uint8), np.frombuffer(columns.ids, np.int64)
    slots = np.flatnonzero((states != FREE) & (states != DEAD) & (ids > after))
    for slot in slots[np.argsort(ids[slots], kind="stable")].tolist():
        if key_of(columns.bodies[slot]).startswith(prefix) and (state is None or state_of(fold, slot, now) == state):
            found.append(row_at(fold, slot))
            if len(found) >= limit:
                break
    return found


def state_of(fold: QueueFold, slot: int, now: int) -> State:
    """In which of the states of `Counts` a row is."""
    columns = fold.columns
    if columns.states[slot] == PROCESSING:
        return "processing"
    if columns.states[slot] == HELD:
        return "held"
    return "future" if process_of(columns.bodies[slot]) > now else "due"


def schedules_of(fold: QueueFold, now: int) -> list[ScheduledRow]:
    """The rows that come again, by key."""
    columns, found = fold.columns, list[ScheduledRow]()
    for slot, extras in columns.extras.items():
        key = key_of(columns.bodies[slot])
        if extras.recurs and fold.by_key.get(key) == slot:
            run = following_run(extras, now) if columns.states[slot] == PROCESSING else process_of(columns.bodies[slot])
            found.append(ScheduledRow(columns.ids[slot], key, schedule_of(extras.schedule), run))
    return sorted(found, key=lambda one: one.key)


def slot_of_id(fold: QueueFold, id: int) -> int:
    """The slot of a row that waits or is processed; -1: there is none of this id."""
    columns = fold.columns
    try:
        slot = columns.ids.index(id)
        while columns.states[slot] == FREE:  # the id of a row that is gone stays until the slot is used again; ids never come again
            slot = columns.ids.index(id, slot + 1)
    except (ValueError, OverflowError):
        return -1
    return -1 if columns.states[slot] == DEAD else slot


def dead_ids(fold: QueueFold, prefix: bytes, reason: str) -> list[int]:
    """The ids of dead rows that a filter lets pass, in order."""
    bodies = fold.columns.bodies
    found = (
        id for id, death in fold.deaths.items() if key_of(bodies[death.slot]).startswith(prefix) and reason in ("", REASONS[death.reason])
    )
    return sorted(found)


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

    def read(self, sequence: int, payload: bytes) -> None:
        """Look at a record. Errors: `Malformed`."""
        now, changes = decode_record(payload)
        inserted = 0
        for change in changes:
            id = self._id_of(change, sequence * MOST_ROWS + inserted)
            inserted += change.kind == INSERT
            for found in [id] if id is not None else self._known(change):
                self.entries.append(HistoryEntry(sequence, now, NAMES[change.kind], found, _detail(change)))

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


def _detail(change: Change) -> str:
    if change.row is not None:
        row = fields(change.row.body)
        return f"priority {row.priority}, {len(row.data)} bytes"
    return ", ".join(str(value) for value in change.values if value != "")
