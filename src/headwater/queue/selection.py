"""The rows that a call means: one by its key or id, dead ones by ids or a filter."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.queue.after_check import AFTER_SIZE
from headwater.queue.columns import EXTRAS_NAMES, extras_size
from headwater.queue.decisions import Decisions
from headwater.queue.listing import END, MOST_SHOWN, dead_row, find_dead, slot_of_id
from headwater.queue.records import OVERHEAD
from headwater.queue.row import Row
from headwater.queue.row_view import row_at
from headwater.queue.values import DeadRow, Put

_DEAD_AT_ONCE, _DEAD_BYTES = 500, 256 << 10  # dead rows that one record retries or drops, and bytes of them
_SEEN = 2000  # dead rows that one look has


def itself(row: Row) -> Row:
    return row


def row_of(dead: DeadRow) -> Row:
    return dead.row


def found_row(key: bytes | int, decisions: Decisions) -> list[Row]:
    fold = decisions.fold
    slot = slot_of_id(fold, key) if isinstance(key, int) else fold.by_key.find(key)
    return [] if slot is None or slot < 0 else [row_at(fold, slot)]


def chosen_dead(ids: Sequence[int], decisions: Decisions) -> list[list[int]]:
    """The ids of the dead rows that are meant, in slices that fit into a record each. Errors: `NotFound`."""
    fold, slices, size = decisions.fold, list[list[int]](), 0
    for id in dict.fromkeys(ids):
        row = dead_row(fold, id).row
        large = len(row.key) + len(row.data) + OVERHEAD + len(row.lane) + EXTRAS_NAMES
        waiting = fold.follow_ups.get(row.key, fold.by_key.find(row.key))
        if waiting is None:
            waiting = -1
        if waiting in fold.columns.extras:  # it is merged into this one
            large += extras_size(fold.columns.extras[waiting])
        if waiting in fold.columns.waits.after:  # which is written once more where it must not wait for others
            large += len(fold.columns.bodies[waiting]) + 2 * AFTER_SIZE * len(fold.columns.waits.after[waiting])
        size += large
        if not slices or len(slices[-1]) >= _DEAD_AT_ONCE or size > _DEAD_BYTES:
            slices.append([])
            size = large
        slices[-1].append(id)
    return slices


def found_dead(prefix: bytes, reason: str, after: int, last: int, decisions: Decisions) -> tuple[list[list[int]], int]:
    """`chosen_dead` of those that a filter finds among the next ones behind an id, up to `last`; and the id behind which to go on."""
    dead_rows, after = find_dead(decisions.fold, prefix, reason, after, _DEAD_AT_ONCE, MOST_SHOWN, at_once=_SEEN)
    return chosen_dead([dead.row.id for dead in dead_rows if dead.row.id <= last], decisions), last if after == END else after


def retried(ids: list[int], decisions: Decisions) -> list[Put]:
    return [decisions.retry(id) for id in ids if id in decisions.fold.deaths]


def dropped_dead(ids: list[int], decisions: Decisions) -> int:
    dead_ids = [id for id in ids if id in decisions.fold.deaths]
    decisions.drop(dead_ids)
    return len(dead_ids)
