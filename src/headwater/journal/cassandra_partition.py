"""The copy of one partition of journals in Cassandra: changes in an order that a death at any step leaves readable, and repeatable.

The steps of a change; each waits for the one before.
  1. The note says which range is begun.
  2. Journals that are purged: their heads hide all events, their segments go, their heads go.
  3. Rows that come.
  4. Heads. Each carries what it was at the pointer.
  5. Rows that are deleted go, and the snapshots of journals that are purged.
  6. The pointer moves.
A reader that finds heads ahead of the pointer takes them as they were. A process that finds an unfinished change applies it again from the
heads as they were, so every step may be repeated. All writes have the time base + offset of the record that they follow from: those of a
task that was paused, and comes late, do not count against what was written since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Conflict, Damaged
from headwater.journal.apply import JournalUpdate, check_generation, due
from headwater.journal.cassandra_changes import CassandraChanges
from headwater.journal.cassandra_grown_view import CassandraGrownView
from headwater.journal.cassandra_moved import MovedFolds, moved_topic
from headwater.journal.cassandra_note import DurablePointer, PartitionNote, decode_note, durable_key, encode_note, note_key
from headwater.journal.cassandra_ring_rows import purge_writes
from headwater.journal.cassandra_rows import StoredHead
from headwater.journal.cassandra_view import CassandraPartitionView, CassandraTables
from headwater.journal.change import PartitionChange, Pointer
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.places import moved_here
from headwater.journal.row_times import Taken, apart
from headwater.journal.segment_jumps import Jumps, jumps_after
from headwater.journal.snapshot_fold import SnapshotsChange
from headwater.journal.store import PartitionStore, PartitionView
from headwater.journal.tally import CopyTally

MARGIN_US = 1_000_000
"""By which kafka-journal's clock may be ahead of ours."""
_ORIGIN = "headwater"
_no_jumps: Jumps = ()


class CopyPosition(msgspec.Struct, frozen=True):
    """Where a partition stands: its pointer, its note, and when the pointer was written."""

    pointer: Pointer
    note: PartitionNote | None
    there: bool
    written: int = 0  # microseconds

    @property
    def clearing(self) -> bool:
        return self.note is not None and self.note.clearing


class CassandraPartitionStore(PartitionStore):
    """As `PartitionStore`. One process at a time applies; others may read. A partition that kafka-journal has copied so far goes on
    from its pointer, whatever the topic's generation."""

    def __init__(self, topic: str, partition: int, generation: str, tables: CassandraTables, *, clock: Clock, segment_size: int) -> None:
        self.topic, self.partition, self.generation = topic, partition, generation
        self._tables, self._clock, self._segment_size = tables, clock, segment_size

    def pointer(self) -> Pointer:
        return self.position().pointer

    def position(self) -> CopyPosition:
        """The pointer with its note. The note is read first: it is written before the pointer, and keeps the epochs of earlier ones."""
        tables = self._tables
        noted = tables.rows("setting", note_key(self.topic, self.partition))
        rows = tables.rows("pointer", self.topic, self.partition)
        try:
            note = decode_note(noted[0][0]) if noted else None
        except msgspec.MsgspecError as error:
            raise Damaged(
                f"The note on {self.topic}/{self.partition} in the table `setting` is damaged: {error}.",
                hint="Copy the topic anew: `headwater journal rebuild`.",
            ) from error
        generation = note.generation if note else ""
        if not rows or rows[0][0] is None or (note is not None and note.clearing):
            return CopyPosition(Pointer(-1, generation=generation, begun=note.unfinished(-1) if note else -1), note, there=False)
        offset, created, updated, written = rows[0]
        epoch, begun = (note.epoch(offset), note.unfinished(offset)) if note else (0, -1)
        return CopyPosition(Pointer(offset, created or 0, updated or 0, generation, epoch, begun), note, there=True, written=written)

    @contextmanager
    def view(self) -> Iterator[PartitionView]:
        position = self.position()
        check_generation(position.pointer, self.topic, self.partition, self.generation)
        yield self._viewed(position.pointer, position.note, clearing=position.clearing)

    def _viewed(self, pointer: Pointer, note: PartitionNote | None, *, clearing: bool = False) -> CassandraPartitionView:
        kind = CassandraGrownView if note is not None and note.moved else CassandraPartitionView
        return kind(self._tables, self.topic, self.partition, pointer, clearing=clearing)

    def apply(self, change: PartitionChange, tally: CopyTally | None = None) -> bool:
        """As `PartitionStore.apply`. Errors: also `Conflict` for a range that does not end where one was begun and never finished: rows
        and heads of that one may be there already, and only the same change knows of all of them."""
        position = self.position()
        pointer = position.pointer
        if not due(change, pointer):
            return False
        if position.clearing:
            self.clear()
            position = self.position()
            pointer = position.pointer
        if pointer.begun >= 0 and change.end != pointer.begun:
            raise Conflict(
                f"A change of {self.topic}/{self.partition} up to offset {pointer.begun - 1} was begun and never finished.",
                hint=f"Plan the range anew from {pointer.offset + 1} to {pointer.begun}.",
            )
        stored = self._tables.heads(self.topic, [journal.id for journal in change.journals])
        moved = {journal.id for journal in change.journals if self._is_moved(journal.id, change.counts, stored.get(journal.id))}
        note = self.begin(change, position, changes=bool(change.journals), moved=bool(moved))
        if change.journals:
            self._apply_journals(change, stored, moved, base=note.base, pointer=pointer, tally=tally)
        self.move_pointer(change.end - 1, note, position)
        return True

    def checkpoint(self) -> Pointer:
        """As `CopyStore.checkpoint`: the pointer of the last call but one minute ago at least, because nodes acknowledge before they sync
        (`commitlog_sync: periodic`). So the first call says that nothing is durable."""
        position, key = self.position(), durable_key(self.topic, self.partition)
        if position.note is None or position.clearing:
            return msgspec.structs.replace(position.pointer, offset=-1)
        rows, now = self._tables.rows("setting", key), self._clock.now_ms()
        base, offset = position.note.base, position.pointer.offset
        try:
            durable_pointer = msgspec.json.decode(rows[0][0], type=DurablePointer) if rows else DurablePointer(base, offset, now)
        except msgspec.MsgspecError:  # whatever it is, it proves nothing
            durable_pointer = DurablePointer(base, offset, now)
        next_pointer = durable_pointer.asked(base, offset, now)
        if next_pointer is not durable_pointer or not rows:
            self._tables.rows("set_setting", key, msgspec.json.encode(next_pointer).decode(), now, _ORIGIN)
        return msgspec.structs.replace(position.pointer, offset=min(next_pointer.durable, offset))

    def clear(self, offset: int = -1) -> None:
        """As `CopyStore.clear`. It reads all heads of the topic."""
        tables, position = self._tables, self.position()
        note, now = position.note, self._clock.now_ms() * 1000
        # Later than every write so far, and earlier than every write to come.
        time = max(now, position.written + MARGIN_US if position.there else 0)
        if note is not None:
            time = max(time, note.base + max(position.pointer.offset + 1, note.begun, 0) + 1)
        cleared = PartitionNote(self.generation, time + 1 - max(offset, 0))
        moved = note is not None and note.moved
        self.write_note(msgspec.structs.replace(cleared, clearing=True, moved=moved), time)
        tables.requests.write([tables.bound("delete_pointer", time, self.topic, self.partition)])
        for name in (self.topic, moved_topic(self.topic, self.partition)) if moved else (self.topic,):
            view, changes, after = (
                CassandraPartitionView(tables, name, self.partition, Pointer(-1), clearing=False),
                self._changes(name),
                None,
            )
            while ids := view.ids(after):
                heads = tables.heads(name, ids)
                tables.requests.write(request for id, stored in heads.items() for request in changes.gone(id, stored, time))
                after = ids[-1]
        if moved:
            MovedFolds(tables, self.topic, self.partition).clear(time)
        self.write_note(cleared, time + 1)
        if offset >= 0:
            self.move_pointer(offset, cleared, self.position())

    def restore(self, base: PartitionView) -> None:
        """As `PartitionStore.restore`. The pointer is written last: until then nothing that is here counts."""
        self.clear()
        note = self.position().note
        assert note is not None
        write, pointer, after = self._tables.requests.write, base.pointer, None
        folds = base.all_moved()
        moved = {id for id, _ in folds}
        plain, newer = self._changes(self.topic), self._changes(moved_topic(self.topic, self.partition))
        while page := base.heads(after, 100):
            for id, head in page:
                head, changes = msgspec.structs.replace(head, segment_size=self._segment_size), newer if id in moved else plain
                jumps, last, taken = _no_jumps, head.deleted, Taken()
                for rows in base.rows(id, msgspec.structs.replace(head, seq_nr=MAX_SEQ_NR), 1):
                    taken = {key: place for key, place in taken.items() if key[0] == rows[0].seq_nr}  # of the number that the page cuts
                    update = JournalUpdate(id, None, head, tuple(apart(rows, taken)))
                    write(changes.row_batches(update, note.base))
                    jumps, last = jumps_after(jumps, head.segment_size, last, [row.seq_nr for row in rows]), rows[-1].seq_nr
                jumps = jumps_after(jumps, head.segment_size, last, [head.seq_nr])
                write([changes.head_write(JournalUpdate(id, None, head, ()), None, jumps, -1, note.base + head.offset)])
            after = page[-1][0]
        MovedFolds(self._tables, self.topic, self.partition).restore(folds, note.base)
        begun = msgspec.structs.replace(note.begin(pointer.offset + 1, pointer.epoch), moved=bool(folds))
        self.write_note(begun, note.base + pointer.offset + 1)
        self.move_pointer(pointer.offset, begun, CopyPosition(Pointer(-1), begun, there=False))

    # -- the steps of a change --------------------------------------------------------------------------------

    def begin(
        self, change: PartitionChange | SnapshotsChange, position: CopyPosition, *, changes: bool, moved: bool = False
    ) -> PartitionNote:
        """Note which range is begun, where it `changes` rows. `moved`: also rows of journals that have an older place."""
        note = position.note
        if note is None:
            # The first record that is ours is written at this moment's time: kafka-journal's writes before and after it sort around.
            now = max(self._clock.now_ms() * 1000, position.written + MARGIN_US if position.there else 0)
            note = PartitionNote(change.generation, now - change.start)
        begun = msgspec.structs.replace(note.begin(change.end, change.epoch), moved=note.moved or moved)
        if changes or position.note is None or begun.epochs != note.epochs:
            self.write_note(begun, begun.base + change.end)
        return begun

    def _changes(self, topic: str) -> CassandraChanges:
        return CassandraChanges(self._tables, topic, self.partition, self._segment_size)

    def _is_moved(self, id: str, counts: Sequence[int], stored: StoredHead | None) -> bool:
        """Whether a journal is kept under the name for those that have an older place. One that was copied here before the topic's growth
        was noticed stays where it is. `stored`: its head under the topic's name."""
        return moved_here(id.encode(), counts, self.partition) and (stored is None or stored.head.partition != self.partition)

    def _apply_journals(
        self,
        change: PartitionChange,
        stored: Mapping[str, StoredHead],
        moved: Collection[str],
        *,
        base: int,
        pointer: Pointer,
        tally: CopyTally | None,
    ) -> None:
        tables, at, again = self._tables, pointer.offset, pointer.begun >= 0
        for name, journals in (
            (self.topic, [journal for journal in change.journals if journal.id not in moved]),
            (moved_topic(self.topic, self.partition), [journal for journal in change.journals if journal.id in moved]),
        ):
            if journals:
                heads = stored if name == self.topic else tables.heads(name, [journal.id for journal in journals])
                self._changes(name).apply(change, journals, heads, base=base, pointer=at, again=again, tally=tally)
        moved_journals = [journal for journal in change.journals if moved_here(journal.id.encode(), change.counts, self.partition)]
        if moved_journals:
            MovedFolds(tables, self.topic, self.partition).write(moved_journals, base, at)
        purges = {journal.id: journal.fold.purged for journal in change.journals if journal.fold.purged >= 0}
        ours = {journal.id for journal in moved_journals}
        for name, purged in (
            (self.topic, {id: offset for id, offset in purges.items() if id not in ours}),
            (moved_topic(self.topic, self.partition), {id: offset for id, offset in purges.items() if id in ours}),
        ):
            tables.requests.write(purge_writes(tables, name, purged))

    def move_pointer(self, offset: int, note: PartitionNote, position: CopyPosition) -> None:
        """Set the pointer."""
        now, time = self._clock.now_ms(), note.base + offset
        if position.there:
            request = self._tables.bound("move_pointer", time, offset, now, self.topic, self.partition)
        else:
            request = self._tables.bound("insert_pointer", self.topic, self.partition, offset, now, now, time)
        self._tables.requests.write([request])

    def write_note(self, note: PartitionNote, time: int) -> None:
        """Write the note, at a time."""
        key = note_key(self.topic, self.partition)
        request = self._tables.bound("set_note", key, encode_note(note), self._clock.now_ms(), _ORIGIN, time)
        self._tables.requests.write([request])
