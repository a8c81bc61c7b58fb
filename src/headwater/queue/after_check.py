"""Checks of puts against rows that wait for others, before anything changes: a put is made whole, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headwater.core.errors import BadInput
from headwater.queue.body import key_of
from headwater.queue.checks import CheckedRow
from headwater.queue.columns import PROCESSING
from headwater.queue.fold import QueueFold
from headwater.queue.row_view import update_of

AFTER_SIZE = 9
"""Bytes of an id that a row waits for, in a record."""
_SHOWN = 10  # keys of a cycle


def check_after(fold: QueueFold, rows: Sequence[CheckedRow]) -> int:
    """Check rows that are put together; return the bytes that a record has of the ids that their rows wait for.

    Errors: `BadInput` for an id that no row has had yet, and for rows that would wait for each other.
    """
    columns, following, size = fold.columns, fold.next_id, 0
    edges: dict[int, set[int]] = {}
    for new in rows:
        for id in new.after:
            if id >= following:
                raise BadInput(f"No row has the id {id}, after which {_shown(new.key)} comes: it was never given.", hint=_HINT)
        size += AFTER_SIZE * len(new.after)
        slot = fold.by_key.get(new.key)
        if slot is not None and columns.states[slot] == PROCESSING:
            slot = fold.follow_ups.get(new.key)
        if slot is None or (not new.own and new.insertion < update_of(columns, slot)):
            continue  # a new row, for which nobody waits; or a stale put
        waited = columns.waits.after.get(slot)
        if waited:
            size += AFTER_SIZE * len(waited)
        if new.after:
            edges.setdefault(columns.ids[slot], set()).update(new.after)
    for id in edges:
        if id in columns.waits.waiters or any(id in others for others in edges.values()):
            _check_cycle(fold, edges, id)
    return size


def all_waiters(fold: QueueFold, id: int) -> set[int]:
    """The ids of all rows that wait for a row, also by way of others."""
    ids, waiters = fold.columns.ids, fold.columns.waits.waiters
    found, far = set[int](), [id]
    for waited in far:
        for slot in waiters.get(waited, ()):
            if ids[slot] not in found:
                found.add(ids[slot])
                far.append(ids[slot])
    return found


def _check_cycle(fold: QueueFold, edges: dict[int, set[int]], start: int) -> None:
    """`edges`: by id, what rows will wait for beside what they wait for already."""
    columns, found, far = fold.columns, dict[int, int](), [start]  # the ids that it waits for, each with the one that waits for it
    for id in far:
        for waited in (*columns.waits.after.get(columns.find(id), ()), *edges.get(id, ())):
            if waited not in found and columns.find(waited) >= 0:
                found[waited] = id
                far.append(waited)
        if start in found:
            break
    if start not in found:
        return
    cycle = [start, found[start]]
    while cycle[-1] != start:
        cycle.append(found[cycle[-1]])
    keys = [_shown(key_of(fold.columns.bodies[fold.columns.find(id)])) for id in reversed(cycle)]
    waits = [f"{one} {'waits ' if not place else ''}for {other}" for place, (one, other) in enumerate(pairwise(keys))]
    more = f", and {len(waits) - _SHOWN} more" if len(waits) > _SHOWN else ""
    raise BadInput(f"These rows would wait for each other: {', '.join(waits[:_SHOWN])}{more}.", hint="Leave one of them out of `after`.")


def _shown(key: bytes) -> str:
    return repr(key[:80].decode(errors="replace"))


_HINT = "Give ids that puts of this queue have answered."
