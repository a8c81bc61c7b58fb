"""Decides what a put changes: it inserts a row, or merges it into the waiting row of its key."""

from __future__ import annotations

from collections import deque
from typing import Any

from msgspec.structs import replace

from headwater.queue import records
from headwater.queue.body import BODY, FOLLOW_UP, HAS_EXTRAS, key_of, make_body, process_of
from headwater.queue.checks import CheckedRow
from headwater.queue.columns import HELD, NO_EXTRAS, PROCESSING, Extras, Tries
from headwater.queue.fold import QueueFold
from headwater.queue.merge import Mergeable, merged
from headwater.queue.records import HEADER, WholeRow, encode_header
from headwater.queue.recurrence import following_run
from headwater.queue.row_view import mergeable, update_of, whole_row
from headwater.queue.schedule import NEVER as NO_SCHEDULE
from headwater.queue.settings import QueueSettings
from headwater.queue.totals import Totals
from headwater.queue.values import Put

_pack_body = BODY.pack


class PutDecisions:
    """Decides for one queue what its puts change. `begin`, then calls, then `end`."""

    def __init__(self, fold: QueueFold, settings: QueueSettings) -> None:
        self.fold = fold
        self._starts: deque[int] = deque()  # when the last rows were claimed, as many as the rate allows in its period
        self.use(settings)
        self.totals = Totals()
        self.died: list[int] = []
        """Ids of the rows that have been given up since somebody has cleared it."""
        self._parts: list[bytes] = []
        self._now = 0

    def use(self, settings: QueueSettings) -> None:
        """Decide by these settings from now on."""
        self.settings = settings
        self.fold.order.lanes.use(settings.lane_concurrency)
        self._starts = deque(self._starts, settings.rate)
        self.limited = bool(settings.concurrency or settings.rate)
        """Whether the queue limits how many rows are processed at once, or within a time."""

    def begin(self, now: int) -> None:
        self.fold.begin(now)
        self._now = now
        self._parts = [encode_header(*HEADER, now)]

    def end(self) -> bytes | None:
        """The value of the record; None: nothing has changed, and there is none."""
        if len(self._parts) == 1:
            self.fold.abandon()
            return None
        value = b"".join(self._parts)
        self.fold.end(len(value))
        return value

    # -- putting ------------------------------------------------------------------------------------------------------

    def put(self, new: CheckedRow) -> Put:
        """Insert a row, or merge it into the waiting row of its key."""
        fold, key = self.fold, new.key
        self.totals.puts += 1
        slot = fold.by_key.get(key)
        if slot is None:
            return Put(self._insert(new), "inserted", new.process, new.raised)
        return self._put_again(slot, new)

    def _insert(self, new: CheckedRow) -> int:
        columns = self.fold.columns
        slot = columns.free.pop() if columns.free else columns.take()
        return self.fold.insert(slot, new.key, self._inserted(slot, new, 0), new.priority, new.process)

    def _inserted(self, slot: int, new: CheckedRow, flags: int) -> bytes:
        """The body of a row that is new to its slot; its change is in the record."""
        extras: dict[str, Any] = {"lane": new.lane} if new.lane else {}
        if new.schedule and (new.schedule != NO_SCHEDULE or flags):
            extras |= {"schedule": new.schedule, "run": new.process}
        if extras:
            flags |= HAS_EXTRAS
        key, data, fold = new.key, new.data, self.fold
        body = (
            _pack_body(
                *(records.INSERT, slot, new.form | flags, new.priority, new.declaration, new.insertion, new.process),
                *(new.expiration, len(key), len(data)),
            )
            + key
            + data
        )
        self._parts.append(body)
        if extras:
            self._parts.append(records.encode_extras(extras))
            fold.columns.extras[slot] = Extras(**extras)
        if new.expiration:  # the row gets its id with the next step: no other row has it
            fold.expiries.push(new.expiration, fold.next_id, slot)
        return body

    def _put_again(self, slot: int, new: CheckedRow) -> Put:
        """Put a key that has a row."""
        fold, columns, insertion = self.fold, self.fold.columns, new.insertion
        if insertion < update_of(columns, slot):
            return Put(columns.ids[slot], "stale", process_of(columns.bodies[slot]))
        known = columns.extras.get(slot, NO_EXTRAS)
        if columns.states[slot] == PROCESSING:
            waiting = fold.follow_ups.get(new.key)
            if waiting is None:
                if known.recurs and new.schedule == known.schedule and not new.dated:
                    new = replace(new, process=following_run(known, self._now))
                slot = columns.take()
                id = fold.insert_follow_up(slot, new.key, self._inserted(slot, new, FOLLOW_UP))
                return Put(id, "follow-up", new.process, new.raised)
            slot = waiting
            if insertion < update_of(columns, slot):
                return Put(columns.ids[slot], "stale", process_of(columns.bodies[slot]))
            if (own := columns.extras.get(slot, NO_EXTRAS)).schedule:
                known = own
        same, process = new.schedule == known.schedule, new.process
        if same and not new.dated:  # the row keeps its date, also where it is overdue
            process = process_of(columns.bodies[slot])
        row = Mergeable(
            *(new.priority, insertion, process, new.expiration, insertion, new.data, new.form, new.declaration, new.lane),
            *(new.schedule, known.run if same else process),
        )
        self._merge(slot, row, moves=not (same or new.dated))
        return Put(columns.ids[slot], "merged", process_of(columns.bodies[slot]), new.raised)

    def _merge(self, slot: int, new: Mergeable, *, moves: bool = False) -> None:
        """Merge into a row that waits or is held. Other data than before begin with no failures and no lost leases.

        `moves`: the row has another schedule from now on, whose first run decides the process date.
        """
        self.totals.merges += 1
        old = whole_row(self.fold, slot)
        known = mergeable(old)
        row = merged(known, new, self.settings.max_delay)
        if moves:
            row = row._replace(process=new.process)
        if row.schedule == NO_SCHEDULE and old.state != HELD:
            row = row._replace(schedule="", run=0)
        changed = (row.data, row.form) != (known.data, known.form)
        extras = {name: value for name, value in old.extras.items() if name == "error" and not changed}
        extras |= {name: value for name in ("lane", "schedule", "run") if (value := getattr(row, name))}
        flags = old.body[5] & FOLLOW_UP | row.form | (HAS_EXTRAS if extras else 0)
        body = make_body(
            *(records.MERGE, slot, flags, row.priority, row.declaration, row.insertion, row.process, row.expiration),
            *(key_of(old.body), row.data),
        )
        tries = Tries(old.tries.attempts) if changed else old.tries
        whole = WholeRow(slot, body, old.id, row.update, old.state, tries, extras)
        self._parts.append(records.encode_whole(records.MERGE, whole))
        self.fold.write(whole)
