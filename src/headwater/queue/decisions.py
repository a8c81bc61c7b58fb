"""Decides what a call changes: it changes the fold, and makes the record that changes it again when the log is replayed.

A call begins a record, decides, and ends it. What is decided depends on the fold, on the request, and on the time that is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.core.errors import Conflict, NotFound
from headwater.queue import records
from headwater.queue.checks import CheckedRow, cut_error
from headwater.queue.columns import PROCESSING
from headwater.queue.fold import QueueFold
from headwater.queue.merge import Mergeable, merged
from headwater.queue.records import BINARY, FOLLOW_UP, HAS_EXTRAS, HEADER, SlotId, encode_header, encode_insert, encode_rows
from headwater.queue.row import SLOW, Row
from headwater.queue.row_view import row_at, whole_row
from headwater.queue.settings import QueueSettings
from headwater.queue.totals import Totals
from headwater.queue.values import ClaimedRow, Failure, Put

_TIMEOUTS, _ATTEMPTS, _GIVEN_UP = range(3)


class Decisions:
    """Decides for one queue. `begin`, then calls, then `end`."""

    def __init__(self, fold: QueueFold, settings: QueueSettings) -> None:
        self.fold, self.settings = fold, settings
        self.totals = Totals()
        self.died: list[int] = []
        """Ids of the rows that have been given up since somebody has cleared it."""
        self._parts: list[bytes] = []
        self._now = 0

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
        fold, key, insertion = self.fold, new.key, new.insertion
        self.totals.puts += 1
        slot = fold.by_key.get(key)
        if slot is None:
            return Put(self._insert(new, new.form), "inserted", new.process, new.raised)
        columns = fold.columns
        if insertion < columns.updates[slot]:
            return Put(columns.ids[slot], "stale", columns.processes[slot])
        if columns.states[slot] == PROCESSING:
            waiting = fold.follow_ups.get(key)
            if waiting is None:
                return Put(self._insert(new, new.form | FOLLOW_UP), "follow-up", new.process, new.raised)
            slot = waiting
            if insertion < columns.updates[slot]:
                return Put(columns.ids[slot], "stale", columns.processes[slot])
        row = Mergeable(*(new.priority, insertion, new.process, new.expiration, insertion, new.data, new.form, new.declaration, new.lane))
        self._merge(slot, row)
        return Put(columns.ids[slot], "merged", columns.processes[slot], new.raised)

    def _insert(self, new: CheckedRow, flags: int) -> int:
        slot = self.fold.columns.take()
        if new.lane:
            extras = {"lane": new.lane}
            row = (slot, flags | HAS_EXTRAS, new.priority, new.declaration, new.insertion, new.process, new.expiration, new.key, new.data)
            self._parts += (encode_insert(*row), records.encode_extras(extras))
            return self.fold.insert(*row, extras)
        row = (slot, flags, new.priority, new.declaration, new.insertion, new.process, new.expiration, new.key, new.data)
        self._parts.append(encode_insert(*row))
        return self.fold.insert(*row)

    def _merge(self, slot: int, new: Mergeable) -> None:
        """Merge into a row that waits or is held. Other data than before begin with no failures and no lost leases."""
        self.totals.merges += 1
        old = whole_row(self.fold, slot)
        known = Mergeable(
            *(old.priority, old.insertion, old.process, old.expiration, old.update, old.data, old.flags & BINARY, old.declaration),
            old.extras.get("lane", b""),
        )
        row = merged(known, new, self.settings.max_delay)
        changed = (row.data, row.form) != (known.data, known.form)
        extras = {name: value for name, value in old.extras.items() if not (changed and name == "error")}
        if row.lane:
            extras["lane"] = row.lane
        whole = old._replace(
            flags=old.flags & FOLLOW_UP | row.form,
            priority=row.priority,
            declaration=row.declaration,
            process=row.process,
            expiration=row.expiration,
            data=row.data,
            update=row.update,
            timeouts=0 if changed else old.timeouts,
            failures=0 if changed else old.failures,
            extras=extras,
        )
        self._parts.append(records.encode_whole(records.MERGE, whole))
        self.fold.write(whole)

    # -- claiming -----------------------------------------------------------------------------------------------------

    def claim(self, n: int, lease: int, group: str, worker: str) -> list[ClaimedRow]:
        """Claim up to `n` rows that are due, in their order. Slow ones only where the group has no other that is due or processed."""
        fold, claims = self.fold, self.fold.claims
        fold.order.promote(self._now)
        slow, until = claims.only_slow(group), self._now + lease
        rows: list[SlotId] = []
        claimed: list[ClaimedRow] = []
        while len(rows) < n and (slot := fold.order.first(slow=slow)) >= 0:
            if fold.columns.priorities[slot] < SLOW:
                slow = False
            fold.claim(slot, until, group, worker)
            rows.append((slot, fold.columns.ids[slot]))
            claimed.append(ClaimedRow(row_at(fold, slot), claims.token(slot), until))
        if rows:
            self.totals.claims += len(rows)
            self._parts.append(records.encode_claim(until, group.encode(), worker.encode(), rows))
        return claimed

    def done(self, tokens: Iterable[str]) -> list[str]:
        """Remove rows that are processed; return the tokens that no longer count."""
        fold, rows, stale = self.fold, list[SlotId](), list[str]()
        for token in tokens:
            slot = fold.claims.slot_of(token)
            if slot < 0:
                stale.append(token)
                continue
            rows.append((slot, fold.columns.ids[slot]))
            fold.done(slot)
        if rows:
            self.totals.done += len(rows)
            self._parts.append(encode_rows(records.DONE, rows))
        return stale

    def extend(self, tokens: Iterable[str], lease: int) -> list[str]:
        """Let leases begin anew; return the tokens that no longer count."""
        rows, stale = self._found(tokens)
        until = self._now + lease
        for slot, _ in rows:
            self.fold.claims.extend(slot, self._now, until)
        if rows:
            self._parts.append(records.encode_dated(records.EXTEND, until, rows))
        return stale

    def release(self, tokens: Iterable[str], delay: int | None) -> list[str]:
        """Give rows back; return the tokens that no longer count."""
        rows, stale = self._found(dict.fromkeys(tokens))
        process = 0 if delay is None else self._now + delay
        for slot, _ in rows:
            self.fold.give_back(slot, process)
        if rows:
            self.totals.released += len(rows)
            self._parts.append(records.encode_dated(records.RELEASE, process, rows))
        self._returned(rows)
        return stale

    def fail(self, failures: Iterable[Failure]) -> list[str]:
        """Give rows back that have failed, or give them up; return the tokens that no longer count."""
        fold, stale = self.fold, list[str]()
        for failure in failures:
            slot = fold.claims.slot_of(failure.token)
            if slot < 0:
                stale.append(failure.token)
                continue
            id, error = fold.columns.ids[slot], cut_error(failure.error)
            self.totals.failed += 1
            if failure.give_up or fold.columns.failures[slot] + 1 >= self.settings.max_attempts:
                self._die(slot, _GIVEN_UP if failure.give_up else _ATTEMPTS, error)
                continue
            process = self._now + (failure.retry_after or 0)
            self._parts.append(records.encode_fail(slot, id, process, error.encode()))
            fold.fail(slot, process, error)
            self._returned([(slot, id)])
        return stale

    def _found(self, tokens: Iterable[str]) -> tuple[list[SlotId], list[str]]:
        fold, rows, stale = self.fold, list[SlotId](), list[str]()
        for token in tokens:
            slot = fold.claims.slot_of(token)
            if slot < 0:
                stale.append(token)
            else:
                rows.append((slot, fold.columns.ids[slot]))
        return rows, stale

    # -- what comes by itself --------------------------------------------------------------------------------------------

    def overdue(self, now: int) -> bool:
        """Whether a lease may have ended, or a row expired. At the very end of its lease, a claim still counts."""
        return self.fold.claims.leases.earliest < now or self.fold.expiries.earliest <= now

    def advance(self, most: int) -> bool:
        """Take back rows whose leases have ended, and remove expired ones: up to about `most`. Return whether there may be more."""
        fold, lost, expired = self.fold, list[SlotId](), list[SlotId]()
        ended = 0
        while ended < most and (slot := fold.claims.leases.pop(self._now - 1)) >= 0:
            ended += 1
            if fold.columns.timeouts[slot] >= self.settings.max_timeouts:
                self._die(slot, _TIMEOUTS, "")
                continue
            lost.append((slot, fold.columns.ids[slot]))
            fold.lose(slot)
        if lost:
            self._parts.append(encode_rows(records.LOST, lost))
            self._returned(lost)
        while len(expired) < most and (slot := fold.expiries.pop(self._now)) >= 0:
            expired.append((slot, fold.columns.ids[slot]))
            fold.remove(slot)
        if expired:
            self._parts.append(encode_rows(records.EXPIRE, expired))
        self.totals.timed_out += ended
        self.totals.expired += len(expired)
        return max(ended, len(expired)) >= most

    def _returned(self, rows: Sequence[SlotId]) -> None:
        """Rows wait again: each takes up what was put of its key meanwhile; then it may have expired."""
        fold, columns = self.fold, self.fold.columns
        for slot, id in rows:
            follow_up = fold.follow_ups.get(columns.keys[slot]) if fold.follow_ups else None
            if follow_up is not None:
                newer = whole_row(fold, follow_up)
                self._parts.append(encode_rows(records.ABSORB, [(follow_up, newer.id)]))
                fold.remove(follow_up)
                row = Mergeable(
                    *(newer.priority, newer.insertion, newer.process, newer.expiration, newer.update, newer.data),
                    *(newer.flags & BINARY, newer.declaration, newer.extras.get("lane", b"")),
                )
                self._merge(slot, row)
            if 0 < columns.expirations[slot] <= self._now:
                self._parts.append(encode_rows(records.EXPIRE, [(slot, id)]))
                fold.remove(slot)
                self.totals.expired += 1

    def _die(self, slot: int, reason: int, error: str) -> None:
        id = self.fold.columns.ids[slot]
        self._parts.append(records.encode_dead(slot, id, reason, error.encode()))
        self.fold.die(slot, reason, error)
        self.died.append(id)
        self.totals.died += 1

    # -- by hand ---------------------------------------------------------------------------------------------------------

    def cancel(self, key: bytes) -> Row:
        """Remove the waiting row of a key. Errors: `NotFound`, `Conflict`."""
        fold = self.fold
        slot = fold.by_key.get(key)
        if slot is None:
            raise unknown_row(key)
        if fold.columns.states[slot] == PROCESSING:
            raise Conflict(
                f"The row of {key.decode(errors='replace')!r} is being processed.", hint="Wait until it is done, or until its lease ends."
            )
        row = row_at(fold, slot)
        self._parts.append(encode_rows(records.CANCEL, [(slot, row.id)]))
        self.totals.cancelled += 1
        fold.remove(slot)
        return row

    def retry(self, id: int) -> Put:
        """Put a dead row again. What was put of its key since is newer, and stays."""
        fold, slot = self.fold, self.fold.deaths[id].slot
        row = whole_row(fold, slot)
        self.drop([id])
        expiration = row.expiration if row.expiration > self._now else 0
        lane = row.extras.get("lane", b"")
        again = CheckedRow(
            *(row.key, row.data, row.flags & BINARY, row.priority, row.update, self._now, expiration, row.declaration, lane, False)
        )
        return self.put(again)

    def drop(self, ids: Sequence[int]) -> None:
        """Forget dead rows."""
        rows = [(self.fold.deaths[id].slot, id) for id in ids]
        for slot, _ in rows:
            self.fold.remove(slot)
        if rows:
            self._parts.append(encode_rows(records.DROP, rows))

    def pause(self) -> None:
        if not self.fold.paused:
            self.fold.pause()
            self._parts.append(bytes([records.PAUSE]))

    def resume(self) -> None:
        if self.fold.paused:
            self.fold.resume()
            self._parts.append(bytes([records.RESUME]))

    def answered(self, expires: int, name: str, digest: bytes, puts: Sequence[Put]) -> None:
        """Keep the answer to a put, so that the same put is answered alike."""
        kept = [(put.id, records.OUTCOMES.index(put.outcome), put.process_date, int(put.raised)) for put in puts]
        self._parts.append(records.encode_answered(expires, name.encode(), digest, kept))
        self.fold.answer(expires, name, digest, kept)

    def carry(self, slots: Iterable[int], most_bytes: int, *, before: int) -> None:
        """Write rows whole, so that the records before are needed no longer; up to about `most_bytes`.

        Also whatever else has its home in a record up to the sequence `before`.
        """
        fold, size = self.fold, 0
        for slot in slots:
            row = whole_row(fold, slot)
            self._parts.append(records.encode_whole(records.CARRY, row))
            fold.write(row)
            size += len(self._parts[-1])
            if size > most_bytes:
                return
        if 0 < fold.paused <= before:
            fold.pause()
            self._parts.append(bytes([records.PAUSE]))
        for name, known in [(name, known) for name, known in fold.answers.items() if known.home <= before]:
            self._parts.append(records.encode_answered(known.expires, name.encode(), known.digest, known.puts))
            fold.answer(known.expires, name, known.digest, known.puts)


def unknown_row(key: bytes | int) -> NotFound:
    shown = f"of the id {key}" if isinstance(key, int) else f"of the key {key.decode(errors='replace')!r}"
    return NotFound(f"There is no row {shown}: it is done, or expired, or was never put.", hint="List rows with `headwater queue rows`.")
