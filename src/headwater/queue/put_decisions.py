"""Decides what a put changes: it inserts a row, or merges it into the waiting row of its key."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from headwater.queue import records
from headwater.queue.after_check import all_waiters
from headwater.queue.body import BODY, FOLLOW_UP, HAS_EXTRAS, ON_LOG, key_of, make_body, process_of
from headwater.queue.checks import CheckedRow
from headwater.queue.columns import HELD, NO_EXTRAS, PROCESSING, Tries
from headwater.queue.data_place import LARGE, PLACE_SIZE, DataPlace, place_of, same_data
from headwater.queue.dependencies import DOOMED
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.fold import QueueFold
from headwater.queue.merge import Mergeable, merged
from headwater.queue.records import DATA_HEAD, HEADER, HEADER_SIZE, WholeRow, encode_data_head, encode_header
from headwater.queue.recurrence import following_run
from headwater.queue.row_view import mergeable, update_of, whole_row
from headwater.queue.schedule import NEVER as NO_SCHEDULE
from headwater.queue.totals import Totals
from headwater.queue.values import Put, QueueEvent

_pack_body = BODY.pack
MOST_BYTES = 256 << 10
"""Of rows that come back and are written whole by one record: all of them at once might fit into none."""
_ABSORBED = 16  # ids of follow-up rows that a row keeps


def _nothing() -> None: ...


class PutDecisions:
    """Decides for one queue what its puts change. `begin`, then calls, then `end`."""

    def __init__(self, fold: QueueFold, settings: EffectiveSettings, *, large: int = LARGE) -> None:
        """`large`: data of more bytes stay on the log."""
        self.fold, self.large = fold, large
        self.use(settings)
        self.totals = Totals()
        self.died: deque[tuple[int, QueueEvent]] = deque()
        """The rows that were given up: by which record, and what is told of it. Whoever tells it removes it."""
        self._parts: list[bytes] = []
        self._data: list[bytes] = []  # of this record: they come before its other changes, so that their places are known
        self._data_end = self._claimed = 0  # `_claimed`: bytes of data that this record gives out
        self._size = self._measured = 0  # bytes of the parts that were measured, and how many of them
        self.on_full: Callable[[], None] = _nothing
        """Is called between two rows of a call when its record has much in it: to end the record, and to begin another one."""
        self.before: Callable[[], None] = _nothing
        """Is called before a record begins: to end the one that is open."""
        self._now = 0

    def use(self, settings: EffectiveSettings) -> None:
        """Decide by these settings from now on."""
        self.settings = settings
        self.fold.order.lanes.use(settings.lane_concurrency)
        self.fold.starts.use(settings.rate, int(settings.rate_period))
        self.fold.data.kept.limit = int(settings.memory)
        self.limited = bool(settings.concurrency or settings.rate)
        """Whether the queue limits how many rows are processed at once, or within a time."""
        self.remembers = bool(settings.unique_for)
        """Whether the queue remembers the keys of all rows that are done."""

    @property
    def has_room(self) -> bool:
        """Whether the rows take no more memory than the queue is to keep."""
        kept = self.fold.data.kept
        return self.fold.live_bytes + kept.size <= kept.limit

    def begin(self, now: int) -> None:
        self.before()
        self.fold.begin(now)
        self._now = now
        self._parts = [encode_header(*HEADER, now)]
        self._claimed = self._size = self._measured = 0
        if self._data:
            self._data = []

    def end(self) -> bytes | None:
        """The value of the record; None: nothing has changed, and there is none."""
        if len(self._parts) == 1:
            self.fold.abandon()
            return None
        value = b"".join([self._parts[0], *self._data, *self._parts[1:]] if self._data else self._parts)
        self.fold.end(len(value))
        return value

    def _full(self) -> bool:
        """Whether the record has so much in it that the next row of the call is better written by another one."""
        parts = self._parts
        while self._measured < len(parts):
            self._size += len(parts[self._measured])
            self._measured += 1
        return self._size > MOST_BYTES

    # -- putting ------------------------------------------------------------------------------------------------------

    def put(self, new: CheckedRow) -> Put:
        """Insert a row, or merge it into the waiting row of its key. One whose key was done within its `within` is ignored.

        `check_after` has found nothing against it.
        """
        fold, key = self.fold, new.key
        self.totals.puts += 1
        slot = fold.by_key.find(key)
        if slot is None:
            known = fold.finished.keys.get(key) if new.within else None
            if known is not None and self._now < min(known.until, known.done + new.within):
                self.totals.ignored += 1
                return Put(known.id, "ignored", 0)
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
        if new.unique_for:
            extras["unique_for"] = new.unique_for
        if new.after:
            extras |= self._waiting(self._left(new.after), new.after_dead)
        if extras:
            flags |= HAS_EXTRAS
        key, data, fold = new.key, new.data, self.fold
        if self._stays_on_log(data):
            data, flags = self._placed(data), flags | ON_LOG
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
            fold.columns.keep_rare(slot, extras)
        if new.expiration:  # the row gets its id with the next step: no other row has it
            fold.expiries.push(new.expiration, fold.next_id, slot)
        return body

    def _stays_on_log(self, data: bytes) -> bool:
        """Whether a row has no more than the place of its data: they are large, or there is no room for them in memory."""
        return type(data) is DataPlace or len(data) > self.large or (len(data) > PLACE_SIZE and not self.has_room)

    def _placed(self, data: bytes, *, keep: bool = True) -> DataPlace:
        """The place of data that stay on the log: where they are, or in this record. `keep`: in memory, too, within the limit."""
        if type(data) is DataPlace:
            return data
        begin = (self._data_end if self._data else HEADER_SIZE - 1) + DATA_HEAD  # the region's byte is not part of a payload
        place = place_of(data, self.fold.sequence, begin)
        self._data += (encode_data_head(len(data)), data)
        self._data_end = begin + len(data)
        if keep and self.has_room:
            self.fold.data.kept.add(place, data)
        return place

    def _put_again(self, slot: int, new: CheckedRow) -> Put:
        """Put a key that has a row."""
        fold, columns, insertion = self.fold, self.fold.columns, new.insertion
        if new.own:
            insertion = max(insertion, update_of(columns, slot))
        elif insertion < update_of(columns, slot):
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
            if new.own:
                insertion = max(new.insertion, update_of(columns, slot))
            elif insertion < update_of(columns, slot):
                return Put(columns.ids[slot], "stale", process_of(columns.bodies[slot]))
            if (own := columns.extras.get(slot, NO_EXTRAS)).schedule:
                known = own
        same, process = new.schedule == known.schedule, new.process
        if same and not new.dated:  # the row keeps its date, also where it is overdue
            process = process_of(columns.bodies[slot])
        row = Mergeable(
            *(new.priority, insertion, process, new.expiration, insertion, new.data, new.form, new.declaration, new.lane),
            *(new.schedule, known.run if same else process, new.unique_for, self._left(new.after), new.after_dead if new.after else ""),
        )
        self._merge(slot, row, moves=not (same or new.dated))
        return Put(columns.ids[slot], "merged", process_of(columns.bodies[slot]), new.raised)

    def _merge(self, slot: int, new: Mergeable, *, moves: bool = False, absorbs: int = 0) -> None:
        """Merge into a row that waits or is held. Other data than before begin with no failures and no lost leases.

        `moves`: the row has another schedule from now on, whose first run decides the process date. `absorbs`: the id of the follow-up row
        that `new` was: who asks for that one is told of this.
        """
        self.totals.merges += 1
        old = whole_row(self.fold, slot)
        known = mergeable(old)
        row = merged(known, new, self.settings.max_delay)
        if moves:
            row = row._replace(process=new.process)
        if row.schedule == NO_SCHEDULE and old.state != HELD:
            row = row._replace(schedule="", run=0)
        changed = row.form != known.form or not same_data(row.data, known.data)
        extras = {name: value for name, value in old.extras.items() if name == "error" and not changed}
        extras |= {name: value for name in ("lane", "schedule", "run", "unique_for") if (value := getattr(row, name))}
        if row.after:
            extras |= self._waiting(self._without_waiters(row.after, old.id), row.after_dead)
        if absorbed := (*old.extras.get("absorbed", ()), *((absorbs,) if absorbs else ())):
            extras["absorbed"] = absorbed[-_ABSORBED:]
        flags, data = old.body[5] & FOLLOW_UP | row.form | (HAS_EXTRAS if extras else 0), row.data
        if self._stays_on_log(data):
            data, flags = self._placed(data), flags | ON_LOG
        body = make_body(
            *(records.MERGE, slot, flags, row.priority, row.declaration, row.insertion, row.process, row.expiration),
            *(key_of(old.body), data),
        )
        tries = Tries(old.tries.attempts) if changed else old.tries
        whole = WholeRow(slot, body, old.id, row.update, old.state, tries, extras)
        self._parts.append(records.encode_whole(records.MERGE, whole))
        self.fold.write(whole)

    # -- waiting for others -------------------------------------------------------------------------------------------

    def _left(self, after: Iterable[int]) -> frozenset[int]:
        """Those of the ids whose rows are not gone; for a follow-up row that was taken up, the row that did so."""
        return frozenset(map(self.fold.columns.heir, after)) - {-1}

    def _waiting(self, after: frozenset[int], after_dead: str) -> dict[str, Any]:
        """The extras of a row that waits for these; none where there are none."""
        if not after:
            return {}
        if after_dead == "cancel" and not self.fold.deaths.keys().isdisjoint(after):
            after = frozenset((DOOMED,))
        return {"after": sorted(after), "after_dead": after_dead or "hold"}

    def _without_waiters(self, after: frozenset[int], id: int) -> frozenset[int]:
        """What a row waits for that has taken another one up: not for those that wait for it."""
        return after - all_waiters(self.fold, id) - {id}

    def _follow(self, old: int, new: int) -> None:
        """Those that wait for one row wait for another instead, which has taken it up."""
        waits = self.fold.columns.waits
        if old not in waits.waiters:
            return
        slot = self.fold.columns.find(new)
        if slot in waits.after:
            after = frozenset(waits.after[slot])
            left = self._without_waiters(after, old)
            if left != after:
                row = whole_row(self.fold, slot)
                rest = {name: value for name, value in row.extras.items() if name not in ("after", "after_dead")}
                row = row._replace(extras=rest | self._waiting(left, row.extras["after_dead"]))
                self._parts.append(records.encode_whole(records.MERGE, row))
                self.fold.write(row)
        self._parts.append(records.encode_follow(old, new))
        waits.move(old, new)
