"""Decides what a call changes: it changes the fold, and makes the record that changes it again when the log is replayed.

A call begins a record, decides, and ends it. What is decided depends on the fold, on the request, and on the time that is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from headwater.core.errors import Conflict, NotFound
from headwater.queue import records
from headwater.queue.after_check import AFTER_SIZE
from headwater.queue.body import FLAGS, ON_LOG, PRIORITY, expiration_of, key_of, place_in, with_place
from headwater.queue.bulk import claim_many
from headwater.queue.checks import MAX_ERROR, CheckedRow, cut_error
from headwater.queue.columns import NO_EXTRAS, NO_TRIES, PROCESSING, extras_size
from headwater.queue.data_place import DataPlace, length_of
from headwater.queue.dependencies import DOOMED
from headwater.queue.finish_decisions import FinishDecisions
from headwater.queue.fold import QueueFold
from headwater.queue.put_decisions import MOST_BYTES
from headwater.queue.records import SlotId, encode_rows
from headwater.queue.recurrence import row_after
from headwater.queue.row import SLOW, Row
from headwater.queue.row_view import mergeable, row_at, whole_row
from headwater.queue.run_now import run_now
from headwater.queue.values import ClaimedRow, FailedClaim, Put, QueueEvent

_TIMEOUTS, _ATTEMPTS, _GIVEN_UP = range(3)
_SOME = 1000  # rows that are told of at once, before a record is looked at
_MOST_PLAIN = 10_000  # rows that are claimed at once without looking at the size of each
MOST_CLAIMED = 32 << 20
"""Bytes of data after which one record claims no more rows: those who have claimed them hold them all."""
NO_DATA: Mapping[DataPlace, bytes] = {}


class Decisions(FinishDecisions):
    """Decides for one queue. `begin`, then calls, then `end`."""

    def on(self, fold: QueueFold) -> Decisions:
        """Decisions that go on with another fold of the same queue."""
        following = Decisions(fold, self.settings, large=self.large)
        following.totals, following.on_full = self.totals, self.on_full
        following.watched, following.before = self.watched, self.before
        following.died.extend((fold.sequence, event) for _, event in self.died if event.id in fold.deaths)  # their records are in the log
        return following

    # -- claiming -----------------------------------------------------------------------------------------------------

    def claim(self, n: int, lease: int, group: str, worker: str) -> list[ClaimedRow]:
        """Claim up to `n` rows that are due, in their order, fewer where they are large. Slow ones only where the group has no other that
        is due or processed."""
        fold, order, columns = self.fold, self.fold.order, self.fold.columns
        if order.later:
            order.promote(self._now)
        if self.limited:
            n = min(n, self.allowed(self._now))
        if not order.due or n <= 0:
            return []
        slow, until = fold.claims.only_slow(group), self._now + lease
        plain = 1 < n <= _MOST_PLAIN and not fold.data.bytes  # then no row is large
        rows, claimed = claim_many(fold, n, until, group, worker) if plain else ([], [])
        slow = slow and not rows
        while len(rows) < n and self._claimed < MOST_CLAIMED and (slot := order.pop(slow=slow)) >= 0:
            if columns.bodies[slot][PRIORITY] < SLOW:
                slow = False
            token = fold.claim(slot, until, group, worker)
            row = row_at(fold, slot)
            rows.append((slot, row.id))
            self._claimed += length_of(row.data)
            claimed.append(ClaimedRow(row, token, until))
        if rows:
            self.totals.claims += len(rows)
            fold.starts.note(self._now, fold.sequence, len(rows))
            self._parts.append(records.encode_claim(until, group.encode(), worker.encode(), rows))
        return claimed

    def allowed(self, now: int) -> int:
        """How many rows the settings allow to be claimed now."""
        settings, most = self.settings, len(self.fold.columns)
        if settings.concurrency:
            most = settings.concurrency - len(self.fold.claims)
        if settings.rate:
            most = min(most, self.fold.starts.allowed(now))
        return most

    def extend(self, tokens: Iterable[str], lease: int) -> list[str]:
        """Let leases begin anew; return the tokens that no longer count."""
        rows, stale = self._found(dict.fromkeys(tokens))
        until = self._now + lease
        for some in self._sliced(rows):
            for slot, _ in some:
                self.fold.claims.extend(slot, self._now, until)
            self._parts.append(records.encode_dated(records.EXTEND, until, some))
        return stale

    def release(self, tokens: Iterable[str], delay: int | None) -> list[str]:
        """Give rows back; return the tokens that no longer count."""
        rows, stale = self._found(dict.fromkeys(tokens))
        process, fold = 0 if delay is None else self._now + delay, self.fold
        self.totals.released += len(rows)
        for some in self._sliced(rows, 1 if fold.follow_ups else _SOME):  # each with its follow-up: they may be too many for one record
            for slot, _ in some:
                fold.give_back(slot, process)
            self._parts.append(records.encode_dated(records.RELEASE, process, some))
            self._returned(some)
        return stale

    def _sliced(self, rows: list[SlotId], size: int = _SOME) -> Iterator[list[SlotId]]:
        """Rows in slices; between two of them the record ends where it is full."""
        for at in range(0, len(rows), size):
            if self._full():
                self.on_full()
            yield rows[at : at + size]

    def fail(self, failures: Iterable[FailedClaim]) -> list[str]:
        """Give rows back that have failed, or give them up; return the tokens that no longer count."""
        fold, stale = self.fold, list[str]()
        for failure in failures:
            slot = fold.claims.by_token.get(failure.token)
            if slot is None:
                stale.append(failure.token)
                continue
            id, error = fold.columns.ids[slot], cut_error(failure.error)
            self.totals.failed += 1
            if failure.give_up or fold.columns.tries.get(slot, NO_TRIES).failures + 1 >= self.settings.max_attempts:
                self._die(slot, _GIVEN_UP if failure.give_up else _ATTEMPTS, error)
            else:
                process = self._now + (failure.retry_after or 0)
                self._parts.append(records.encode_fail(slot, id, process, error.encode()))
                fold.give_back(slot, process, failures=1, error=error)
                self._returned([(slot, id)])
            if self._full():
                self.on_full()
        return stale

    def _found(self, tokens: Iterable[str]) -> tuple[list[SlotId], list[str]]:
        fold, rows, stale = self.fold, list[SlotId](), list[str]()
        for token in tokens:
            slot = fold.claims.by_token.get(token)
            if slot is None:
                stale.append(token)
            else:
                rows.append((slot, fold.columns.ids[slot]))
        return rows, stale

    # -- what comes by itself --------------------------------------------------------------------------------------------

    def overdue(self, now: int) -> bool:
        """Whether a lease may have ended, a row expired, or one is to be cancelled. At the very end of its lease, a claim still counts."""
        return self.fold.claims.earliest < now or self.fold.expiries.earliest <= now or self.doomed

    @property
    def doomed(self) -> bool:
        """Whether rows are to be cancelled, because what they wait for is dead, cancelled or expired."""
        return DOOMED in self.fold.columns.waits.waiters

    def advance(self, most: int) -> bool:
        """Take back rows whose leases have ended, and remove expired ones and those that are to be cancelled: up to about `most` each.

        Return whether there may be more.
        """
        fold, lost, expired = self.fold, list[SlotId](), list[SlotId]()
        ended = size = 0
        while ended < most and size < MOST_BYTES and (slot := fold.claims.pop_ended(self._now)) >= 0:
            if fold.columns.tries.get(slot, NO_TRIES).timeouts >= self.settings.max_timeouts:
                ended += 1
                if (extras := fold.columns.extras.get(slot, NO_EXTRAS)).recurs:  # the row of the next run is written whole
                    size += len(fold.columns.bodies[slot]) + extras_size(extras)
                self._die(slot, _TIMEOUTS, "")
                continue
            if fold.follow_ups and (follow_up := fold.follow_ups.get(key_of(fold.columns.bodies[slot]))) is not None:
                begun = size  # the row is written whole, with what its follow-up says
                size += len(fold.columns.bodies[follow_up]) + MAX_ERROR + AFTER_SIZE * len(fold.columns.waits.after.get(follow_up, ()))
                if begun and size > MOST_BYTES:  # it may fill a record alone: the next one
                    fold.claims.put_back(slot)
                    break
            ended += 1
            lost.append((slot, fold.columns.ids[slot]))
            fold.give_back(slot, timeouts=1)
        if lost:
            self._parts.append(encode_rows(records.LOST, lost))
            self._returned(lost)
        while size < MOST_BYTES and len(expired) < most and (slot := fold.expiries.pop(self._now)) >= 0:
            expired.append((slot, fold.columns.ids[slot]))
            self._end(fold.columns.ids[slot], "expired")
            fold.remove(slot, failed=True)
        if expired:
            self._parts.append(encode_rows(records.EXPIRE, expired))
        self.totals.timed_out += ended
        self.totals.expired += len(expired)
        if self.doomed and size < MOST_BYTES:
            self._cancel_doomed(most)
        return max(ended, len(expired)) >= most or size >= MOST_BYTES or self.doomed

    def _cancel_doomed(self, most: int) -> None:
        """Each one that is cancelled may doom others: they follow, one after the other."""
        fold, rows = self.fold, list[SlotId]()
        while len(rows) < most and (slots := fold.columns.waits.doomed(most - len(rows))):
            for slot in slots:
                rows.append((slot, fold.columns.ids[slot]))
                self._end(fold.columns.ids[slot], "cancelled")
                fold.remove(slot, failed=True)
        self._parts.append(encode_rows(records.CANCEL, rows))
        self.totals.cancelled += len(rows)

    def _returned(self, rows: Sequence[SlotId]) -> None:
        """Rows wait again: each takes up what was put of its key meanwhile; then it may have expired."""
        fold, columns = self.fold, self.fold.columns
        for slot, id in rows:
            follow_up = fold.follow_ups.get(key_of(columns.bodies[slot])) if fold.follow_ups else None
            if follow_up is not None:
                newer = whole_row(fold, follow_up)
                self._follow(newer.id, id)
                self._parts.append(encode_rows(records.ABSORB, [(follow_up, newer.id)]))
                self._end(newer.id, id)
                fold.remove(follow_up)
                self._merge(slot, mergeable(newer), absorbs=newer.id)
            if 0 < expiration_of(columns.bodies[slot]) <= self._now:
                self._parts.append(encode_rows(records.EXPIRE, [(slot, id)]))
                self._end(id, "expired")
                fold.remove(slot, failed=True)
                self.totals.expired += 1

    def _die(self, slot: int, reason: int, error: str) -> None:
        fold, columns = self.fold, self.fold.columns
        id, extras = columns.ids[slot], columns.extras.get(slot, NO_EXTRAS)
        self._parts.append(records.encode_dead(slot, id, reason, error.encode()))
        fold.die(slot, reason, error)
        event = QueueEvent("dead", fold.now, id, key_of(columns.bodies[slot]), records.REASONS[reason], position=fold.sequence)
        self.died.append((fold.sequence, event))
        self._end(id, "dead")
        self.totals.died += 1
        if extras.recurs:
            following = row_after(fold, slot, extras, self._now)
            if isinstance(following, CheckedRow):
                self._insert(following)
            else:
                self._parts.extend(following)

    # -- by hand ---------------------------------------------------------------------------------------------------------

    def cancel(self, key: bytes) -> Row:
        """Remove the waiting row of a key. Errors: `NotFound`, `Conflict`."""
        fold = self.fold
        slot = fold.by_key.find(key)
        if slot is None:
            raise unknown_row(key)
        if fold.columns.states[slot] == PROCESSING:
            raise Conflict(
                f"The row of {key.decode(errors='replace')!r} is being processed.", hint="Wait until it is done, or until its lease ends."
            )
        row = row_at(fold, slot)
        self._parts.append(encode_rows(records.CANCEL, [(slot, row.id)]))
        self.totals.cancelled += 1
        self._end(row.id, "cancelled")
        fold.remove(slot, failed=True)
        return row

    def run(self, key: bytes) -> Row:
        """Let the waiting row of a key be due now. Errors: `NotFound`, `Conflict`."""
        slot = self.fold.by_key.find(key)
        if slot is None:
            raise unknown_row(key)
        self._parts.extend(run_now(self.fold, slot, self._now))
        return row_at(self.fold, slot)

    def retry(self, id: int) -> Put:
        """Put a dead row again. What was put of its key since is newer, and stays. Those that wait for it follow it."""
        fold, slot = self.fold, self.fold.deaths[id].slot
        row = mergeable(whole_row(fold, slot))
        key = key_of(fold.columns.bodies[slot])
        expiration = row.expiration if row.expiration > self._now else 0
        again = CheckedRow(*(key, row.data, row.form, row.priority, row.update, self._now, expiration, row.declaration, row.lane, False))
        again.unique_for = row.unique_for
        put = self.put(again)
        if put.id:
            self._follow(id, put.id)
        self.drop([id])
        return put

    def drop(self, ids: Sequence[int]) -> None:
        """Forget dead rows."""
        rows = [(self.fold.deaths[id].slot, id) for id in ids]
        for slot, _ in rows:
            self.fold.remove(slot)
        if rows:
            self._parts.append(encode_rows(records.DROP, rows))

    def tell(self, id: int) -> None:
        """The address of `on_dead` knows of a dead row: it is carried with that."""
        death = self.fold.deaths.get(id)
        if death is not None and not death.told:
            row = whole_row(self.fold, death.slot)
            row.extras["death"] = list(death._replace(told=True)[1:])
            self._parts.append(records.encode_whole(records.CARRY, row))
            self.fold.write(row)

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
        self.fold.answers.keep(expires, name, digest, kept)

    def carry(self, slots: Iterable[int], most_bytes: int, *, before: int, data: Mapping[DataPlace, bytes] = NO_DATA) -> None:
        """Write rows whole, so that the records before are needed no longer; up to `most_bytes`, or one that is larger.

        `data`: those that were on the log alone, by their places. They are written again; what is not given stays where it is.
        Also whatever else has its home in a record up to the sequence `before`.
        """
        fold, size = self.fold, 0
        for slot in slots:
            row = whole_row(fold, slot)
            row_data = data.get(place_in(row.body)) if row.body[FLAGS] & ON_LOG else None
            part = records.encode_whole(records.CARRY, row)
            adds = len(part) + (0 if row_data is None else len(row_data) + records.DATA_HEAD)
            if size and size + adds > most_bytes:
                return
            if row_data is not None:
                row = row._replace(body=with_place(row.body, self._placed(row_data, keep=False)))
                part = records.encode_whole(records.CARRY, row)
            self._parts.append(part)
            fold.write(row)
            size += adds
        if 0 < fold.paused <= before:
            fold.pause()
            self._parts.append(bytes([records.PAUSE]))
        for name, answer in list(takewhile(lambda entry: entry[1].home <= before, fold.answers)):  # they are in the order of their homes
            if answer.expires > self._now:  # else it is forgotten, now that it is the first
                part = records.encode_answered(answer.expires, name.encode(), answer.digest, answer.puts)
                if size and size + len(part) > most_bytes:
                    return
                self._parts.append(part)
                fold.answers.keep(answer.expires, name, answer.digest, answer.puts)
                size += len(part)


def unknown_row(key: bytes | int) -> NotFound:
    shown = f"of the id {key}" if isinstance(key, int) else f"of the key {key.decode(errors='replace')!r}"
    return NotFound(f"There is no row {shown}: it is done, or expired, or was never put.", hint="List rows with `headwater queue rows`.")
