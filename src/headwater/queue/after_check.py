"""Checks of puts against the rows that there are, before anything changes: a put is made whole, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headwater.core.errors import BadInput
from headwater.queue.body import key_of
from headwater.queue.checks import CheckedRow
from headwater.queue.columns import EXTRAS_NAMES, PROCESSING, extras_size
from headwater.queue.fold import QueueFold
from headwater.queue.row_view import update_of

AFTER_SIZE = 9
"""Bytes of an id that a row waits for, in a record."""
_SHOWN = 10  # keys of a cycle


def check_after(fold: QueueFold, rows: Sequence[CheckedRow]) -> None:
    """Check rows that are put together.

    Errors: `BadInput` for an id that no row has had yet, and for rows that would wait for each other.
    """
    columns, following = fold.columns, fold.next_id
    edges: dict[int, set[int]] = {}
    for new in rows:
        for id in new.after:
            if id >= following:
                raise BadInput(f"No row has the id {id}, after which {_shown(new.key)} comes: it was never given.", hint=_HINT)
        slot = _waiting(fold, new.key)
        if slot is None or (not new.own and new.insertion < update_of(columns, slot)):
            continue  # a new row, for which nobody waits; or a stale put
        if new.after:
            edges.setdefault(columns.ids[slot], set()).update(map(columns.heir, new.after))
    for id in edges:
        if id in columns.waits.waiters or any(id in others for others in edges.values()):
            _check_cycle(fold, edges, id)


def rare_size(fold: QueueFold, rows: Sequence[CheckedRow]) -> int:
    """The most bytes that a record of these puts has of what few rows have, beside the lanes and schedules that they bring.

    Each row that is merged is written with all that it has.
    """
    columns, known, size = fold.columns, dict[bytes, int](), 0
    for new in rows:
        had = known.get(new.key)
        if had is None:
            slot = _waiting(fold, new.key)
            extras = None if slot is None else columns.extras.get(slot)
            had = 0 if extras is None else extras_size(extras)
            if slot is not None and slot in columns.waits.after:
                had += AFTER_SIZE * len(columns.waits.after[slot])
        if new.lane or new.schedule or new.after or new.unique_for:
            size += EXTRAS_NAMES + AFTER_SIZE * len(new.after)
            known[new.key] = had + EXTRAS_NAMES + len(new.lane) + len(new.schedule) + AFTER_SIZE * len(new.after)
        size += had
    return size


def _waiting(fold: QueueFold, key: bytes) -> int | None:
    """The slot of the row into which a put of a key is merged; None: it inserts one."""
    slot = fold.by_key.find(key)
    return fold.follow_ups.get(key) if slot is not None and fold.columns.states[slot] == PROCESSING else slot


def all_waiters(fold: QueueFold, id: int) -> set[int]:
    """The ids of all rows that wait for a row, also by way of others."""
    ids, waiters = fold.columns.ids, fold.columns.waits.waiters
    waiter_ids, far = set[int](), [id]
    for waited in far:
        for slot in waiters.get(waited, ()):
            if ids[slot] not in waiter_ids:
                waiter_ids.add(ids[slot])
                far.append(ids[slot])
    return waiter_ids


def _check_cycle(fold: QueueFold, edges: dict[int, set[int]], start: int) -> None:
    """`edges`: by id, what rows will wait for beside what they wait for already."""
    columns, waiter_by_id, far = fold.columns, dict[int, int](), [start]  # the ids that it waits for, each with the one that waits for it
    for id in far:
        for waited in (*columns.waits.after.get(columns.find(id), ()), *edges.get(id, ())):
            if waited not in waiter_by_id and columns.find(waited) >= 0:
                waiter_by_id[waited] = id
                far.append(waited)
        if start in waiter_by_id:
            break
    if start not in waiter_by_id:
        return
    cycle = [start, waiter_by_id[start]]
    while cycle[-1] != start:
        cycle.append(waiter_by_id[cycle[-1]])
    keys = [_shown(key_of(fold.columns.bodies[fold.columns.find(id)])) for id in reversed(cycle)]
    waits = [
        f"{waiting_key} {'waits ' if not place else ''}for {awaited_key}" for place, (waiting_key, awaited_key) in enumerate(pairwise(keys))
    ]
    more = f", and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    raise BadInput(f"These rows would wait for each other: {', '.join(waits[:_SHOWN])}{more}.", hint="Leave one of them out of `after`.")


def _shown(key: bytes) -> str:
    return repr(key[:80].decode(errors="replace"))


_HINT = "Give ids that puts of this queue have answered."
