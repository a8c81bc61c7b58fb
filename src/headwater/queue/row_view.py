"""A row read from its columns: as users see it, as a record holds it whole, and as it takes part in a merge."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from headwater.queue.body import BINARY, BODY, BODY_SIZE, ON_LOG, fields, insertion_of
from headwater.queue.columns import BLOCKED, DEAD, HELD, LAST_WAITING, NO_EXTRAS, NO_TRIES, PROCESSING, RUN, RowColumns
from headwater.queue.dependencies import DOOMED
from headwater.queue.fold import QueueFold
from headwater.queue.merge import Mergeable
from headwater.queue.records import WholeRow
from headwater.queue.row import Row

_unpack = BODY.unpack_from
_unpack_claimed = struct.Struct(">5xBBHQQQH").unpack_from  # of a body: from its flags to the length of its key


def row_at(fold: QueueFold, slot: int) -> Row:
    """The row of a slot, as users see it; with the place of its data where these are on the log alone."""
    columns = fold.columns
    state, body = columns.states[slot], columns.bodies[slot]
    _, _, flags, priority, declaration, insertion, process, expiration, length, _ = _unpack(body)
    middle = BODY_SIZE + length
    data = fold.data.of(body[middle:]) if flags & ON_LOG else body[middle:]
    tries = columns.tries.get(slot, NO_TRIES) if columns.tries else NO_TRIES
    extras = columns.extras.get(slot, NO_EXTRAS) if columns.extras else NO_EXTRAS
    update = columns.updates.get(slot, insertion) if columns.updates else insertion
    if state == PROCESSING:
        claim = fold.claims.by_slot[slot]
        return Row(
            columns.ids[slot], body[BODY_SIZE:middle], data, flags & 1, priority, insertion, process, expiration, "P", claim.start,
            tries.timeouts, tries.attempts + 1, tries.failures, update, extras.lane, declaration, extras.error, claim.until, claim.worker,
            claim.group,
            schedule=extras.recurs,
        )  # fmt: skip
    after, after_dead = waited_for(columns, slot) if columns.waits.after else ((), "")
    return Row(
        columns.ids[slot], body[BODY_SIZE:middle], data, flags & 1, priority, insertion, process, expiration, "W", 0,
        tries.timeouts, tries.attempts, tries.failures, update, extras.lane, declaration, extras.error, follow_up=state == HELD,
        schedule=extras.recurs, after=tuple(id for id in after if id != DOOMED), after_dead=after_dead,
    )  # fmt: skip


def waited_for(columns: RowColumns, slot: int) -> tuple[Sequence[int], str]:
    """The ids of the rows that the row of a slot waits for, and what a dead one of them does."""
    waits = columns.waits
    if slot not in waits.after:
        return (), ""
    return sorted(waits.after[slot]), "cancel" if slot in waits.cancels else "hold"


def claimed_rows(fold: QueueFold, slots: Sequence[int], ids: Sequence[int], until: int, group: str, worker: str) -> list[Row]:
    """The rows of slots that are claimed just now, and their ids are known: as `row_at`, in fewer steps."""
    columns, start = fold.columns, fold.now
    if columns.tries or columns.extras or columns.updates or fold.data.bytes:
        return [row_at(fold, slot) for slot in slots]
    bodies = list(map(columns.bodies.__getitem__, slots))
    return [
        Row(
            id, body[BODY_SIZE : BODY_SIZE + length], body[BODY_SIZE + length :], flags & 1, priority, insertion, process, expiration,
            "P", start, 0, 1, 0, insertion, b"", declaration, "", until, worker, group,
        )
        for id, body, (flags, priority, declaration, insertion, process, expiration, length)
        in zip(ids, bodies, map(_unpack_claimed, bodies), strict=True)
    ]  # fmt: skip


def whole_row(fold: QueueFold, slot: int) -> WholeRow:
    """The row of a slot as a record holds it."""
    columns = fold.columns
    state, id, body = columns.states[slot], columns.ids[slot], columns.bodies[slot]
    known = columns.extras.get(slot, NO_EXTRAS)
    extras: dict[str, Any] = {name: value for name in known.__struct_fields__ if (value := getattr(known, name))}
    after, after_dead = waited_for(columns, slot)
    if after:
        extras |= {"after": after, "after_dead": after_dead}
    if state == PROCESSING:
        claim = fold.claims.by_slot[slot]
        extras["claim"] = [claim.sequence, claim.start, claim.until, claim.group, claim.worker]
    elif state == DEAD:
        extras["death"] = list(fold.deaths[id][1:])
    return WholeRow(
        slot=slot,
        body=body,
        id=id,
        update=update_of(columns, slot),
        state=RUN if state <= LAST_WAITING or state == BLOCKED else state,
        tries=columns.tries.get(slot, NO_TRIES),
        extras=extras,
    )


def update_of(columns: RowColumns, slot: int) -> int:
    """The insertion date of the last put that has changed a row."""
    update = columns.updates.get(slot)
    return insertion_of(columns.bodies[slot]) if update is None else update


def mergeable(row: WholeRow) -> Mergeable:
    """What a row has that takes part in a merge."""
    _, _, flags, priority, declaration, insertion, process, expiration, _, data = fields(row.body)
    rare = (row.extras.get("lane", b""), row.extras.get("schedule", ""), row.extras.get("run", 0), row.extras.get("unique_for", 0))
    waits = frozenset(row.extras.get("after", ())), row.extras.get("after_dead", "")
    return Mergeable(*(priority, insertion, process, expiration, row.update, data, flags & BINARY, declaration), *rare, *waits)
