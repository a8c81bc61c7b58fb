"""The state of a queue as a fold of its log. Live calls change it by the same functions that replay a record.

It reads no clock: every record has its time. A change of a row that is not known does nothing: the log may begin behind the record that
inserted the row, and then the row is gone by the end, or a later record holds it whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from headwater.queue import records
from headwater.queue.claims import Claims
from headwater.queue.columns import DEAD, FREE, HELD, NOWHERE, PROCESSING, WAITING, Extras, RowColumns
from headwater.queue.date_heap import DateHeap
from headwater.queue.homes import Homes
from headwater.queue.order import RowOrder
from headwater.queue.records import BINARY, FOLLOW_UP, MOST_ROWS, RowState

_MOST_TIMEOUTS, _MOST_COUNTED = 255, 65_535
_ROW = 64  # bytes of a row in the log, beside its key and data


class Death(NamedTuple):
    """Why a row is dead."""

    slot: int
    reason: int
    date: int
    error: str
    worker: str


class Answered(NamedTuple):
    """What was answered to a put that has a name of its own, until `expires`."""

    expires: int
    digest: bytes
    puts: list[tuple[int, int, int, int]]
    home: int


class _Order(Protocol):
    def add(self, slot: int, now: int) -> None: ...
    def remove(self, slot: int) -> None: ...


class _NoOrder:
    """While a log is replayed: the order is made at its end."""

    def add(self, slot: int, now: int) -> None: ...

    def remove(self, slot: int) -> None: ...


class QueueFold:
    """The rows of a queue. Begin a record, make its changes, end it; or `apply` one that is in the log."""

    def __init__(self, next: int = 1) -> None:
        """`next`: the sequence of the first record to come."""
        self.columns = RowColumns()
        self.by_key: dict[bytes, int] = {}
        self.follow_ups: dict[bytes, int] = {}
        """The rows that wait while the row of their key is processed."""
        self.claims = Claims(self.columns)
        self.deaths: dict[int, Death] = {}
        self.answers: dict[str, Answered] = {}
        self.homes = Homes(next)
        self.expiries = DateHeap(self._expires)
        self.order = RowOrder(self.columns)
        self.paused = 0
        """The sequence of the record that paused the queue; 0: it is not."""
        self.live_bytes = 0
        """About how many bytes of the log the rows need."""
        self.sequence, self.now = next - 1, 0
        self._inserted = 0  # rows of the record that is being made
        self._placing: _Order = _NoOrder()

    def __len__(self) -> int:
        """How many rows there are, dead ones included."""
        return len(self.by_key) + len(self.follow_ups) + len(self.deaths)

    # -- records ------------------------------------------------------------------------------------------------------

    def begin(self, now: int) -> None:
        """Begin a record. Its changes follow."""
        self.sequence = self.homes.begin()
        self.now, self._inserted = now, 0
        if self.answers:
            self._forget_answers()

    def abandon(self) -> None:
        """End the record: it changes nothing, and is not written."""
        self.homes.abandon()
        self.sequence -= 1

    def end(self, size: int) -> None:
        """End the record; it has so many bytes."""
        self.homes.end(size)

    def skip_to(self, sequence: int) -> None:
        """The next record to begin has this sequence: those before it were never written."""
        while self.homes.next < sequence:
            self.homes.begin()

    def finish(self, now: int) -> None:
        """End the replay of a log: from now on the order of the rows is kept. `now` decides which are due."""
        for key in [key for key in self.follow_ups if key not in self.by_key]:
            self._promote(key)
        self.columns.count_free()
        self.homes.pass_unneeded()
        columns = self.columns
        expiring = [slot for slot, date in enumerate(columns.expirations) if date and columns.states[slot] in (WAITING, HELD)]
        self.expiries.fill([(columns.expirations[slot], columns.ids[slot], slot) for slot in expiring])
        self.order.rebuild(now)
        self._placing = self.order

    # -- changes, which live calls make, too -----------------------------------------------------------------------------

    def insert(
        self,
        slot: int,
        flags: int,
        priority: int,
        declaration: int,
        insertion: int,
        process: int,
        expiration: int,
        key: bytes,
        data: bytes,
        extras: dict[str, Any] | None = None,
    ) -> int:
        """A new row, at a free slot; return its id."""
        columns = self.columns
        id = self.sequence * MOST_ROWS + self._inserted
        self._inserted += 1
        columns.ids[slot] = id
        columns.priorities[slot] = priority
        columns.forms[slot] = flags & BINARY
        columns.declarations[slot] = declaration
        columns.insertions[slot] = columns.updates[slot] = insertion
        columns.processes[slot] = process
        columns.expirations[slot] = expiration
        columns.timeouts[slot] = columns.attempts[slot] = columns.failures[slot] = 0
        columns.keys[slot] = key
        columns.data[slot] = data
        columns.homes[slot] = self.sequence
        self.homes.add(self.sequence)
        self.live_bytes += _ROW + len(key) + len(data)
        if extras:
            columns.extras[slot] = Extras(**extras)
        if flags & FOLLOW_UP:
            columns.states[slot] = HELD
            self.follow_ups[key] = slot
        else:
            columns.states[slot] = WAITING
            self.by_key[key] = slot
            self._placing.add(slot, self.now)
        if expiration:
            self.expiries.push(expiration, id, slot)
        return id

    def write(self, row: RowState) -> None:
        """A row whole: as a merge has made it, or as it is carried. It may be unknown."""
        columns, slot = self.columns, row.slot
        known = columns.states[slot] != FREE and columns.ids[slot] == row.id
        if known:
            self._leave(slot)
        columns.ids[slot] = row.id
        columns.priorities[slot] = row.priority
        columns.forms[slot] = row.flags & BINARY
        columns.declarations[slot] = row.declaration
        columns.insertions[slot] = row.insertion
        columns.updates[slot] = row.update
        columns.processes[slot] = row.process
        columns.expirations[slot] = row.expiration
        columns.timeouts[slot], columns.attempts[slot], columns.failures[slot] = row.timeouts, row.attempts, row.failures
        columns.keys[slot] = row.key
        columns.data[slot] = row.data
        columns.homes[slot] = self.sequence
        self.homes.add(self.sequence)
        self.live_bytes += _ROW + len(row.key) + len(row.data)
        self._enter(slot, row)

    def claim(self, slot: int, until: int, group: str, worker: str) -> None:
        """A waiting row is processed from now on."""
        columns = self.columns
        if columns.states[slot] == HELD:  # in a log that no longer tells how the row of its key went
            self._promote(columns.keys[slot])
        self._placing.remove(slot)
        columns.states[slot] = PROCESSING
        if columns.attempts[slot] < _MOST_COUNTED:
            columns.attempts[slot] += 1
        self.claims.add(slot, self.sequence, self.now, until, group, worker)

    def done(self, slot: int) -> None:
        """A processed row is gone."""
        self.claims.remove(slot)
        self._unlink(slot)
        self._drop(slot)

    def give_back(self, slot: int, process: int = 0) -> None:
        """A processed row waits again, from a date on; 0: it keeps its date."""
        columns = self.columns
        self.claims.remove(slot)
        columns.states[slot] = WAITING
        if process:
            columns.processes[slot] = process
        self._placing.add(slot, self.now)
        if columns.expirations[slot]:
            self.expiries.push(columns.expirations[slot], columns.ids[slot], slot)

    def fail(self, slot: int, process: int, error: str) -> None:
        """A processed row has failed, and waits again."""
        self._count_failure(slot, error)
        self.give_back(slot, process)

    def lose(self, slot: int) -> None:
        """The lease of a row has ended; it waits again."""
        self._count_timeout(slot)
        self.give_back(slot)

    def die(self, slot: int, reason: int, error: str) -> None:
        """A processed row is given up."""
        columns = self.columns
        if records.REASONS[reason] == "timeouts":
            self._count_timeout(slot)
        else:
            self._count_failure(slot, error)
        claim = self.claims.remove(slot)
        self._unlink(slot)
        columns.states[slot] = DEAD
        self.deaths[columns.ids[slot]] = Death(slot, reason, self.now, error, claim.worker)

    def remove(self, slot: int) -> None:
        """A waiting, held or dead row is gone: cancelled, expired, absorbed or dropped."""
        columns = self.columns
        state = columns.states[slot]
        if state == DEAD:
            del self.deaths[columns.ids[slot]]
        elif state == HELD:
            del self.follow_ups[columns.keys[slot]]
        else:
            self._placing.remove(slot)
            self._unlink(slot)
        self._drop(slot)

    def pause(self) -> None:
        if self.paused:
            self.homes.remove(self.paused)
        self.paused = self.sequence
        self.homes.add(self.sequence)

    def resume(self) -> None:
        if self.paused:
            self.homes.remove(self.paused)
        self.paused = 0

    def answer(self, expires: int, name: str, digest: bytes, puts: list[tuple[int, int, int, int]]) -> None:
        """A put with a name of its own was answered."""
        if name in self.answers:
            self.homes.remove(self.answers.pop(name).home)
        self.answers[name] = Answered(expires, digest, puts, self.sequence)
        self.homes.add(self.sequence)

    # -- looking ---------------------------------------------------------------------------------------------------------

    def holds(self, slot: int, id: int, *states: int) -> bool:
        """Whether the row of this id is at the slot, in one of these states."""
        columns = self.columns
        return slot < len(columns.states) and columns.ids[slot] == id and columns.states[slot] in states

    # -- inside -----------------------------------------------------------------------------------------------------------

    def _leave(self, slot: int) -> None:
        """Take a row out of everything that finds it, because it is written whole."""
        columns = self.columns
        state, key = columns.states[slot], columns.keys[slot]
        if state == PROCESSING:
            self.claims.remove(slot)
        if state == DEAD:
            del self.deaths[columns.ids[slot]]
        elif state == HELD:
            del self.follow_ups[key]
        else:
            self._placing.remove(slot)
            del self.by_key[key]
        self.homes.remove(columns.homes[slot])
        self.live_bytes -= _ROW + len(key) + len(columns.data[slot])
        columns.extras.pop(slot, None)

    def _enter(self, slot: int, row: RowState) -> None:
        """Let a row that was written whole be found."""
        columns, extras = self.columns, dict(row.extras)
        claim, death = extras.pop("claim", None), extras.pop("death", None)
        if extras:
            columns.extras[slot] = Extras(**extras)
        columns.states[slot] = row.state
        if row.state == DEAD:
            columns.places[slot] = NOWHERE
            self.deaths[row.id] = Death(slot, *death)
        elif row.state == HELD:
            columns.places[slot] = NOWHERE
            self.follow_ups[row.key] = slot
        else:
            self.by_key[row.key] = slot
            if row.state == PROCESSING:
                self.claims.add(slot, *claim)
            else:
                self._placing.add(slot, self.now)
        if row.expiration and row.state in (WAITING, HELD):
            self.expiries.push(row.expiration, row.id, slot)

    def _unlink(self, slot: int) -> None:
        """The key of a row that goes has its follow-up row now, or none."""
        key = self.columns.keys[slot]
        if self.follow_ups and key in self.follow_ups:
            self._promote(key)
        else:
            del self.by_key[key]

    def _promote(self, key: bytes) -> None:
        """The follow-up row of a key becomes its row."""
        slot = self.by_key[key] = self.follow_ups.pop(key)
        self.columns.states[slot] = WAITING
        self._placing.add(slot, self.now)

    def _drop(self, slot: int) -> None:
        columns = self.columns
        self.homes.remove(columns.homes[slot])
        self.live_bytes -= _ROW + len(columns.keys[slot]) + len(columns.data[slot])
        columns.give_back(slot)

    def _count_failure(self, slot: int, error: str) -> None:
        columns = self.columns
        columns.failures[slot] = min(columns.failures[slot] + 1, _MOST_COUNTED)
        extras = columns.extras.get(slot)
        if extras is not None:
            extras.error = error
        elif error:
            columns.extras[slot] = Extras(error=error)

    def _count_timeout(self, slot: int) -> None:
        self.columns.timeouts[slot] = min(self.columns.timeouts[slot] + 1, _MOST_TIMEOUTS)

    def _forget_answers(self) -> None:
        while self.answers and (first := next(iter(self.answers.items())))[1].expires <= self.now:
            del self.answers[first[0]]
            self.homes.remove(first[1].home)

    def _expires(self, date: int, id: int, slot: int) -> bool:
        columns = self.columns
        return columns.states[slot] in (WAITING, HELD) and columns.ids[slot] == id and columns.expirations[slot] == date
