"""A row read from its columns: as users see it, and as a record holds it whole."""

from __future__ import annotations

from typing import Any

from headwater.queue.columns import DEAD, HELD, PROCESSING, Extras
from headwater.queue.fold import QueueFold
from headwater.queue.records import FOLLOW_UP, HAS_EXTRAS, RowState
from headwater.queue.row import Row

_NO_EXTRAS = Extras()


def row_at(fold: QueueFold, slot: int) -> Row:
    """The row of a slot, as users see it."""
    columns = fold.columns
    state = columns.states[slot]
    start = until = 0
    worker = group = ""
    if state == PROCESSING:
        claim = fold.claims.by_slot[slot]
        start, until, worker, group = claim.start, claim.until, claim.worker, claim.group
    extras = columns.extras.get(slot, _NO_EXTRAS)
    return Row(
        columns.ids[slot],
        columns.keys[slot],
        columns.data[slot],
        columns.forms[slot],
        columns.priorities[slot],
        columns.insertions[slot],
        columns.processes[slot],
        columns.expirations[slot],
        "P" if state == PROCESSING else "W",
        start,
        columns.timeouts[slot],
        columns.attempts[slot],
        columns.failures[slot],
        columns.updates[slot],
        extras.lane,
        columns.declarations[slot],
        extras.error,
        until,
        worker,
        group,
        state == HELD,
    )


def whole_row(fold: QueueFold, slot: int) -> RowState:
    """The row of a slot as a record holds it."""
    columns = fold.columns
    state, id = columns.states[slot], columns.ids[slot]
    known = columns.extras.get(slot, _NO_EXTRAS)
    extras: dict[str, Any] = {name: value for name in known.__struct_fields__ if (value := getattr(known, name))}
    if state == PROCESSING:
        claim = fold.claims.by_slot[slot]
        extras["claim"] = [claim.sequence, claim.start, claim.until, claim.group, claim.worker]
    elif state == DEAD:
        extras["death"] = list(fold.deaths[id][1:])
    return RowState(
        slot=slot,
        flags=columns.forms[slot] | (FOLLOW_UP if state == HELD else 0) | (HAS_EXTRAS if extras else 0),
        priority=columns.priorities[slot],
        declaration=columns.declarations[slot],
        insertion=columns.insertions[slot],
        process=columns.processes[slot],
        expiration=columns.expirations[slot],
        key=columns.keys[slot],
        data=columns.data[slot],
        id=id,
        update=columns.updates[slot],
        state=state,
        timeouts=columns.timeouts[slot],
        attempts=columns.attempts[slot],
        failures=columns.failures[slot],
        extras=extras,
    )
