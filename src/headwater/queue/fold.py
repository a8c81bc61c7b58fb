"""The state of a queue as a fold of its log. Live calls change it by the same functions that replay a record.

It reads no clock: every record has its time. A change of a row that is not known does nothing: the log may begin behind the record that
inserted the row, and then the row is gone by the end, or a later record holds it whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from headwater.queue.body import BODY_SIZE, FLAGS, ON_LOG, PRIORITY, expiration_of, insertion_of, key_of, process_of, with_process
from headwater.queue.claim_rate import ClaimRate
from headwater.queue.claims import Claims
from headwater.queue.columns import BLOCKED, DEAD, FREE, HELD, LAST_WAITING, NO_EXTRAS, NO_TRIES, PROCESSING, RowColumns, Tries
from headwater.queue.date_heap import DateHeap
from headwater.queue.death import Death, death_size
from headwater.queue.finished import Finished
from headwater.queue.homes import Homes
from headwater.queue.kept_answers import KeptAnswers
from headwater.queue.key_index import KeyIndex, KeyName, key_hash
from headwater.queue.log_data import LogData
from headwater.queue.order import NoOrder, PlacingOrder, RowOrder
from headwater.queue.records import MOST_ROWS, REASONS, WholeRow
from headwater.queue.replayed import NoKeys, ReplayedClaims, keys_of
from headwater.queue.row import SLOW
from headwater.queue.row_index import RowIndex
from headwater.queue.sized_dict import SizedDict

_MOST_TIMEOUTS, _MOST_COUNTED = 255, 65_535


class QueueFold:
    """The rows of a queue. Begin a record, make its changes, end it."""

    def __init__(self, next: int = 1, *, table: int = 0, hash: Callable[[bytes], int] = key_hash) -> None:
        """`next`: the sequence of the first record to come. `table`: in which they lie; it is part of the tokens. `hash`: of long keys."""
        self.columns = RowColumns()
        self.by_key: KeyIndex = NoKeys(self.columns.bodies, hash)
        self.follow_ups: dict[bytes, int] = {}
        """The rows that wait while the row of their key is processed."""
        self.claims: Claims = ReplayedClaims(table)
        self.deaths: SizedDict[int, Death] = SizedDict(death_size)
        self.homes = Homes(next)
        self.answers = KeptAnswers(self._enter_home, self._leave_home)
        self.finished = Finished(self._enter_home, self._leave_home)
        self.expiries = DateHeap(self._expires)
        self.order = RowOrder(self.columns)
        self.starts = ClaimRate()
        self.index = RowIndex(self.columns)
        self.paused = 0
        """The sequence of the record that paused the queue; 0: it is not."""
        self.live_bytes = 0
        """Of the bodies of all rows."""
        self.data = LogData(self.homes)
        self.sequence, self.now = next - 1, 0
        self._inserted = self._homes = 0  # of the record that is being made: its rows, and how many things have it as their home
        self._placing: PlacingOrder = NoOrder(self.columns)

    def __len__(self) -> int:
        """How many rows there are, dead ones included."""
        return len(self.by_key) + len(self.follow_ups) + len(self.deaths)

    @property
    def forgets(self) -> int:
        """The date at which something that stays without a row is over; `NEVER`: nothing is."""
        return min(self.finished.earliest, self.answers.earliest)

    # -- records ------------------------------------------------------------------------------------------------------

    def begin(self, now: int) -> None:
        """Begin a record. Its changes follow."""
        self.sequence += 1
        self.now = now
        self._inserted = self._homes = 0
        if self.answers.earliest <= now:
            self.answers.forget_until(now)
        if self.finished.earliest <= now:
            self.finished.forget_until(now)

    def abandon(self) -> None:
        """End the record: it changes nothing, and is not written."""
        self.sequence -= 1

    def end(self, size: int) -> None:
        """End the record; it has so many bytes."""
        self.homes.note(self._homes, size)

    def skip_to(self, sequence: int) -> None:
        """The next record to begin has this sequence: those before it were never written."""
        while self.sequence + 1 < sequence:
            self.homes.note(0, 0)
            self.sequence += 1

    def finish(self, now: int) -> None:
        """End the replay of a log: from now on the order of the rows is kept. `now` decides which are due."""
        self.by_key = keys_of(self.columns, self.by_key.hash)
        if isinstance(self.claims, ReplayedClaims):
            self.claims = self.claims.counted(self.columns)
        for key in [key for key in self.follow_ups if self.by_key.find(key) is None]:
            self._promote(key)
        self.columns.count_free()
        self.homes.pass_unneeded()
        self.order.rebuild(self.by_key.values(), now)
        self._placing = self.order
        for slot in self.claims.by_slot:
            self.order.started(slot)

    # -- changes, which live calls make, too -----------------------------------------------------------------------------

    def insert(self, slot: int, key: bytes, body: bytes, priority: int, process: int) -> int:
        """A new row that waits, at a free slot; return its id."""
        id = self._new(slot, body)
        self.by_key.add(key, slot)
        self._placing.add(slot, priority, process, self.now)
        return id

    def insert_follow_up(self, slot: int, key: bytes, body: bytes) -> int:
        """A new row that waits until the row of its key is done; return its id."""
        id = self._new(slot, body)
        self.follow_ups[key] = slot
        self.columns.states[slot] = HELD
        return id

    @property
    def next_id(self) -> int:
        """The id that the next inserted row gets."""
        return self.sequence * MOST_ROWS + self._inserted

    def insert_due(self, slot: int, name: KeyName, body: bytes, priority: int, id: int) -> None:
        """`insert` of a row that is due from now on, has all its data, and waits for no other: what nearly all puts do.

        `name`: of its key. `id`: the `next_id`, and for each row behind the first one more. `count_inserted` counts them, before the
        record ends.
        """
        columns = self.columns
        columns.ids[slot] = id
        columns.bodies[slot] = body
        self.by_key[name] = slot
        if columns.by_id is not None:
            columns.by_id[id] = slot
        self.order.add_new(slot, id, priority, self.now)

    def count_inserted(self, bodies: Sequence[bytes]) -> None:
        """The rows that `insert_due` has inserted."""
        self._inserted += len(bodies)
        self._homes += len(bodies)
        self.live_bytes += sum(map(len, bodies))

    def expire_at(self, slot: int, expiration: int) -> None:
        """A row that was inserted, or waits again, expires at a date."""
        self.expiries.push(expiration, self.columns.ids[slot], slot)

    def write(self, row: WholeRow) -> None:
        """A row whole: as a merge has made it, or as it is carried. It may be unknown."""
        columns, slot = self.columns, row.slot
        if columns.states[slot] != FREE and columns.ids[slot] == row.id:
            self._leave(slot)
        columns.ids[slot] = row.id
        columns.bodies[slot] = row.body
        columns.use_homes()[slot] = self.sequence
        if row.update != insertion_of(row.body):
            columns.updates[slot] = row.update
        if any(row.tries):
            columns.tries[slot] = row.tries
        self._homes += 1
        self.live_bytes += len(row.body)
        if row.body[FLAGS] & ON_LOG:
            self.data.need(slot, row.body, self.sequence)
        self._enter(slot, row)

    def claim(self, slot: int, until: int, group: str, worker: str) -> str:
        """A row that was taken from the order is processed from now on; return the claim's token."""
        columns = self.columns
        if columns.states[slot] == HELD:  # in a log that no longer tells how the row of its key went
            self._promote(key_of(columns.bodies[slot]))
        columns.states[slot] = PROCESSING
        if columns.extras:
            self._placing.started(slot)
        return self.claims.add(slot, self.sequence, self.now, until, group, worker, columns.bodies[slot][PRIORITY] < SLOW)

    def done(self, slot: int) -> None:
        """A processed row is gone."""
        self.claims.remove(slot)
        columns = self.columns
        body = columns.bodies[slot]
        if columns.extras:
            self._placing.ended(slot)
        key = body[BODY_SIZE : BODY_SIZE + (body[33] << 8 | body[34])]
        if self.follow_ups and key in self.follow_ups:
            self._promote(key)
        else:
            self.by_key.leave(key)
        self.live_bytes -= len(body)
        if body[FLAGS] & ON_LOG:
            self.data.leave(slot, body)
        self._leave_home(self.home(slot))
        columns.give_back(slot)
        if columns.waits.waiters:
            self.let_go(columns.ids[slot])

    def let_go(self, id: int, *, failed: bool = False) -> None:
        """A row is gone, or a run of it: those that wait for it wait for it no longer. `failed`: it was cancelled, or has expired."""
        columns = self.columns
        for slot in columns.waits.gone(id, failed=failed):
            if columns.states[slot] == BLOCKED:
                self._placing.remove(slot)
                self._place(slot)

    def give_back(self, slot: int, process: int = 0, *, timeouts: int = 0, failures: int = 0, error: str = "") -> None:
        """A processed row waits again, from a date on; 0: it keeps its date. Beside it has lost its lease, or failed, or neither."""
        columns = self.columns
        self.claims.remove(slot)
        self._placing.ended(slot)
        self._count(slot, timeouts, failures, error)
        if process:
            columns.bodies[slot] = with_process(columns.bodies[slot], process)
        self._place(slot)
        if expiration := expiration_of(columns.bodies[slot]):
            self.expire_at(slot, expiration)

    def run_again(self, slot: int, run: int) -> None:
        """A run of a processed row has ended: it waits for the one of this date, with no lost lease and no failure."""
        self.give_back(slot, run)
        self._placing.remove(slot)
        self.columns.tries.pop(slot, None)
        self._place(slot)
        self.columns.disown(slot)
        self.columns.extras[slot] = replace(self.columns.extras.get(slot, NO_EXTRAS), error="", run=run, absorbed=())
        self.let_go(self.columns.ids[slot])

    def die(self, slot: int, reason: int, error: str) -> None:
        """A processed row is given up. Its schedule goes on with another row, or with none."""
        columns = self.columns
        claim = self.claims.remove(slot)
        self._placing.ended(slot)
        lost = REASONS[reason] == "timeouts"
        self._count(slot, int(lost), int(not lost), error)
        self._unlink(slot)
        if slot in columns.extras:
            columns.extras[slot] = replace(columns.extras[slot], schedule="", run=0)
        columns.states[slot] = DEAD
        self.deaths[columns.ids[slot]] = Death(slot, reason, self.now, error, claim.worker, position=self.sequence)
        columns.waits.dead(columns.ids[slot])

    def remove(self, slot: int, *, failed: bool = False) -> None:
        """A waiting, held or dead row is gone: absorbed or dropped; `failed`: cancelled or expired."""
        columns = self.columns
        state = columns.states[slot]
        if state == DEAD:
            del self.deaths[columns.ids[slot]]
        elif state == HELD:
            del self.follow_ups[key_of(columns.bodies[slot])]
        else:
            self._placing.remove(slot)
            self._unlink(slot)
        self._drop(slot)
        if columns.waits.waiters:
            self.let_go(columns.ids[slot], failed=failed)

    def pause(self) -> None:
        self.resume()
        self.paused = self.sequence
        self._homes += 1

    def resume(self) -> None:
        if self.paused:
            self._leave_home(self.paused)
        self.paused = 0

    # -- looking ---------------------------------------------------------------------------------------------------------

    def holds(self, slot: int, id: int) -> bool:
        """Whether the row of this id is at the slot."""
        columns = self.columns
        return slot < len(columns.states) and columns.ids[slot] == id and columns.states[slot] != FREE

    def home(self, slot: int) -> int:
        """The sequence of the record that holds a row whole."""
        columns = self.columns
        return (columns.homes and columns.homes[slot]) or columns.ids[slot] // MOST_ROWS

    def oldest_home(self, slot: int) -> int:
        """The first record that a row needs: its home, or the one before it that holds its data."""
        return self.data.homes.get(slot) or self.home(slot)

    # -- inside -----------------------------------------------------------------------------------------------------------

    def _new(self, slot: int, body: bytes) -> int:
        id = self.columns.ids[slot] = self.sequence * MOST_ROWS + self._inserted
        self._inserted += 1
        self._homes += 1
        self.columns.bodies[slot] = body
        self.live_bytes += len(body)
        if self.columns.by_id is not None:
            self.columns.by_id[id] = slot
        if body[FLAGS] & ON_LOG:
            self.data.need(slot, body, self.sequence)
        return id

    def _leave(self, slot: int) -> None:
        """Take a row out of everything that finds it, because it is written whole."""
        columns = self.columns
        state, body = columns.states[slot], columns.bodies[slot]
        if state == DEAD:
            del self.deaths[columns.ids[slot]]
        elif state == HELD:
            del self.follow_ups[key_of(body)]
        else:
            if state == PROCESSING:
                self.claims.remove(slot)
                self._placing.ended(slot)
            else:
                self._placing.remove(slot)
            self.by_key.leave(key_of(body))
        self._leave_home(self.home(slot))
        self.live_bytes -= len(body)
        if body[FLAGS] & ON_LOG:
            self.data.leave(slot, body)
        columns.forget_rare(slot)

    def _enter(self, slot: int, row: WholeRow) -> None:
        """Let a row that was written whole be found."""
        columns, key = self.columns, key_of(row.body)
        extras = dict(row.extras)
        claim, death = extras.pop("claim", None), extras.pop("death", None)
        if extras:
            columns.keep_rare(slot, extras)
        if row.state == DEAD:
            columns.states[slot] = DEAD
            self.deaths[row.id] = Death(slot, *death)
            return
        if row.state == PROCESSING:
            columns.states[slot] = PROCESSING
            self.by_key.add(key, slot)
            self.claims.add(slot, claim[0], claim[1], claim[2], claim[3], claim[4], row.body[PRIORITY] < SLOW)
            self._placing.started(slot)
            return
        if row.state == HELD:
            columns.states[slot] = HELD
            self.follow_ups[key] = slot
        else:
            self.by_key.add(key, slot)
            self._place(slot)
        if expiration := expiration_of(row.body):
            self.expire_at(slot, expiration)

    def _unlink(self, slot: int) -> None:
        """The key of a row that goes has its follow-up row now, or none."""
        key = key_of(self.columns.bodies[slot])
        if self.follow_ups and key in self.follow_ups:
            self._promote(key)
        else:
            self.by_key.leave(key)

    def _promote(self, key: bytes) -> None:
        """The follow-up row of a key becomes its row."""
        slot = self.follow_ups.pop(key)
        self.by_key.add(key, slot)
        self._place(slot)

    def _place(self, slot: int) -> None:
        body = self.columns.bodies[slot]
        self._placing.add(slot, body[PRIORITY], process_of(body), self.now)

    def _drop(self, slot: int) -> None:
        self._leave_home(self.home(slot))
        body = self.columns.bodies[slot]
        self.live_bytes -= len(body)
        if body[FLAGS] & ON_LOG:
            self.data.leave(slot, body)
        self.columns.give_back(slot)

    def _enter_home(self) -> int:
        self._homes += 1
        return self.sequence

    def _leave_home(self, home: int) -> None:
        if home == self.sequence:
            self._homes -= 1
        else:
            self.homes.remove(home)

    def _count(self, slot: int, timeouts: int, failures: int, error: str) -> None:
        """A claim of a row has ended, and the row stays."""
        tries, columns = self.columns.tries.get(slot, NO_TRIES), self.columns
        columns.tries[slot] = Tries(
            min(tries.attempts + 1, _MOST_COUNTED),
            min(tries.timeouts + timeouts, _MOST_TIMEOUTS),
            min(tries.failures + failures, _MOST_COUNTED),
        )
        if failures and (error or slot in columns.extras):
            columns.extras[slot] = replace(columns.extras.get(slot, NO_EXTRAS), error=error)

    def _expires(self, date: int, id: int, slot: int) -> bool:
        columns = self.columns
        waits = FREE < columns.states[slot] <= LAST_WAITING or columns.states[slot] in (HELD, BLOCKED)
        return waits and columns.ids[slot] == id and expiration_of(columns.bodies[slot]) == date
