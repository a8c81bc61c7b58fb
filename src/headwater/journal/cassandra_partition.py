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

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Conflict, Damaged, Unsupported
from headwater.journal.apply import JournalUpdate, check_generation, due, journal_updates
from headwater.journal.cassandra_note import PartitionNote, decode_note, encode_note, note_key
from headwater.journal.cassandra_ring_rows import purge_writes
from headwater.journal.cassandra_rows import StoredHead, before_of, head_values, row_values, same_life
from headwater.journal.cassandra_view import HEAD_SEGMENTS, CassandraPartitionView, CassandraTables
from headwater.journal.change import EventRow, PartitionChange, Pointer
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.head import Head
from headwater.journal.places import moved_here
from headwater.journal.segment_jumps import Jumps, jumps_after, segments_between
from headwater.journal.snapshot_fold import SnapshotsChange
from headwater.journal.store import PartitionStore, PartitionView, head_segment, segment_of
from headwater.journal.tally import CopyTally

_BATCH_ROWS = 100
_BATCH_BYTES = 64 << 10
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
        yield CassandraPartitionView(self._tables, self.topic, self.partition, position.pointer, clearing=position.clearing)

    def apply(self, change: PartitionChange, tally: CopyTally | None = None) -> bool:
        """As `PartitionStore.apply`. Errors: also `Conflict` for a range that ends before one that was begun and never finished."""
        grew = len(change.counts) > 1
        if grew and any(moved_here(journal.id.encode(), change.counts, self.partition) for journal in change.journals):
            raise Unsupported(
                f"{self.topic} grew, and journals with records in an older partition go on in partition {self.partition}: "
                "a row of Cassandra's `metajournal` holds the head of one partition alone.",
                hint="Reads stay right, from the log. Export the topic, and import it into one with enough partitions from the start.",
            )
        position = self.position()
        pointer = position.pointer
        if not due(change, pointer):
            return False
        if position.clearing:
            self.clear()
            position = self.position()
            pointer = position.pointer
        if change.end < pointer.begun:
            raise Conflict(
                f"A change of {self.topic}/{self.partition} up to offset {pointer.begun - 1} was begun and never finished.",
                hint=f"Plan the range anew from {pointer.offset + 1} to {pointer.begun} or further.",
            )
        note = self.begin(change, position, changes=bool(change.journals))
        if change.journals:
            self._apply_journals(change, note, pointer, tally, again=pointer.begun >= 0)
        self.move_pointer(change.end - 1, note, position)
        return True

    def checkpoint(self) -> Pointer:
        """A quorum has synced what it acknowledged, as far as the nodes' `commitlog_sync` says so."""
        return self.pointer()

    def clear(self, offset: int = -1) -> None:
        """As `CopyStore.clear`. It reads all heads of the topic."""
        tables, position = self._tables, self.position()
        note, now = position.note, self._clock.now_ms() * 1000
        # Later than every write so far, and earlier than every write to come.
        time = max(now, position.written + MARGIN_US if position.there else 0)
        if note is not None:
            time = max(time, note.base + max(position.pointer.offset + 1, note.begun, 0) + 1)
        cleared = PartitionNote(self.generation, time + 1 - max(offset, 0))
        self.write_note(msgspec.structs.replace(cleared, clearing=True), time)
        tables.requests.write([tables.bound("delete_pointer", time, self.topic, self.partition)])
        view = CassandraPartitionView(tables, self.topic, self.partition, Pointer(-1), clearing=False)
        after: str | None = None
        while ids := view.ids(after):
            heads = tables.heads(self.topic, ids)
            tables.requests.write(request for id, stored in heads.items() for request in self._journal_gone(id, stored, time))
            after = ids[-1]
        self.write_note(cleared, time + 1)
        if offset >= 0:
            self.move_pointer(offset, cleared, self.position())

    def restore(self, base: PartitionView) -> None:
        """As `PartitionStore.restore`. The pointer is written last: until then nothing that is here counts."""
        self.clear()
        note = self.position().note
        assert note is not None
        write, pointer, after = self._tables.requests.write, base.pointer, None
        while page := base.heads(after, 100):
            for id, head in page:
                head = msgspec.structs.replace(head, segment_size=self._segment_size)
                jumps, last, times = _no_jumps, head.deleted, set[int]()
                for rows in base.rows(id, msgspec.structs.replace(head, seq_nr=MAX_SEQ_NR), 1):
                    kept, number = [], last
                    for row in rows:  # of one number and millisecond the first, as changes leave them
                        times = times if row.seq_nr == number else set()
                        number = row.seq_nr
                        if row.timestamp not in times:
                            times.add(row.timestamp)
                            kept.append(row)
                    update = JournalUpdate(id, None, head, tuple(kept))
                    write(self._row_batches(update, note.base))
                    jumps, last = jumps_after(jumps, head.segment_size, last, [row.seq_nr for row in rows]), rows[-1].seq_nr
                jumps = jumps_after(jumps, head.segment_size, last, [head.seq_nr])
                write([self._head_write(JournalUpdate(id, None, head, ()), None, jumps, -1, note.base + head.offset)])
            after = page[-1][0]
        begun = note.begin(pointer.offset + 1, pointer.epoch)
        self.write_note(begun, note.base + pointer.offset + 1)
        self.move_pointer(pointer.offset, begun, CopyPosition(Pointer(-1), begun, there=False))

    # -- the steps of a change --------------------------------------------------------------------------------

    def begin(self, change: PartitionChange | SnapshotsChange, position: CopyPosition, *, changes: bool) -> PartitionNote:
        """Note which range is begun, where it `changes` rows."""
        note = position.note
        if note is None:
            # The first record that is ours is written at this moment's time: kafka-journal's writes before and after it sort around.
            now = max(self._clock.now_ms() * 1000, position.written + MARGIN_US if position.there else 0)
            note = PartitionNote(change.generation, now - change.start)
        begun = note.begin(change.end, change.epoch)
        if changes or position.note is None or begun.epochs != note.epochs:
            self.write_note(begun, begun.base + change.end)
        return begun

    def _apply_journals(
        self, change: PartitionChange, note: PartitionNote, pointer: Pointer, tally: CopyTally | None, *, again: bool
    ) -> None:
        tables, base = self._tables, note.base
        stored = tables.heads(self.topic, [journal.id for journal in change.journals])
        heads = {id: head for id, raw in stored.items() if (head := raw.at(pointer.offset, self.partition)) is not None}
        found = journal_updates(change, heads, segment_size=self._segment_size, tally=tally)
        updates = [update for update in found if update.changed]
        folds = {journal.id: journal.fold for journal in change.journals}
        jumps = {update.id: _jumps(update, update.head, stored.get(update.id)) for update in updates if update.head is not None}
        write = tables.requests.write
        purged = [(update, stored[update.id]) for update in updates if update.purges and update.id in stored]
        write(self._purge_intent(update.id, raw, base + folds[update.id].purged) for update, raw in purged)
        write(
            request for update, raw in purged for request in self._purge_segments(update, raw, base + folds[update.id].purged, again=again)
        )
        write(
            tables.bound("delete_head", base + folds[update.id].offset, self.topic, raw.segment, update.id)
            for update, raw in purged
            if update.head is None
        )
        write(request for update in self._first_rows(updates) for request in self._row_batches(update, base))
        write(
            self._head_write(update, stored.get(update.id), jumps[update.id], pointer.offset, base + folds[update.id].offset)
            for update in updates
            if update.head is not None
        )
        write(
            request
            for update in updates
            if update.delete_to and update.stored is not None
            for request in self._deletions(update, update.stored, jumps[update.id], base + folds[update.id].offset)
        )
        purges = {id: fold.purged for id, fold in folds.items() if fold.purged >= 0}
        write(purge_writes(tables, self.topic, purges))

    def _purge_intent(self, id: str, raw: StoredHead, time: int) -> Any:
        """Hide all events before the first segment goes, as kafka-journal does: its readers see a journal that is deleted, not half."""
        last = raw.head.last
        return self._tables.bound("intend_purge", time, last, last, self.topic, raw.segment, id)

    def _purge_segments(self, update: JournalUpdate, raw: StoredHead, time: int, *, again: bool) -> Iterator[Any]:
        """The segments of the life that ends, and one on either side, where a kafka-journal that died may have left rows."""
        stored = update.stored or raw.head
        size = stored.segment_size
        first, last = max(segment_of(stored.deleted or 1, size) - 1, 0), segment_of(max(stored.last, 1), size) + 1
        if again:  # the change that was begun may have written rows behind the head
            while self._tables.rows("any_row", update.id, self.topic, last):
                last += 1
        for segment in segments_between(first, last, raw.jumps):
            yield self._tables.bound("delete_segment", time, update.id, self.topic, segment)

    def _first_rows(self, updates: list[JournalUpdate]) -> Iterator[JournalUpdate]:
        """Updates without the rows whose number and millisecond another row has: they share its key and would overwrite it.

        Only numbers that are not above the stored ones can meet a stored row, so only those are looked for.
        """
        for update in updates:
            if not update.rows or update.head is None:
                continue
            taken: dict[tuple[int, int], tuple[int, int]] = {}
            stored = update.stored
            if stored is not None and not update.purges:
                below = sorted(row.seq_nr for row in update.rows if row.seq_nr <= stored.last)
                taken = self._taken(update.id, update.head, below) if below else {}
            rows: list[EventRow] = []
            for row in update.rows:
                place = (row.partition, row.offset)
                first = taken.setdefault((row.seq_nr, row.timestamp), place)
                if first == place and not (rows and (rows[-1].seq_nr, rows[-1].offset) == (row.seq_nr, row.offset)):
                    rows.append(row)
            yield msgspec.structs.replace(update, rows=tuple(rows))

    def _taken(self, id: str, head: Head, below: list[int]) -> dict[tuple[int, int], tuple[int, int]]:
        """The keys of stored rows with these numbers, and the partition and offset that they are of."""
        tables = self._tables
        segments = sorted({segment_of(number, head.segment_size) for number in below})
        answers = tables.requests.all(tables.bound("row_keys", id, self.topic, segment, below[0], below[-1]) for segment in segments)
        return {
            (seq_nr, timestamp): (partition, offset)
            for rows in answers
            for seq_nr, timestamp, partition, offset, record_id in rows
            if same_life(record_id, head)
        }

    def _row_batches(self, update: JournalUpdate, base: int) -> Iterator[Any]:
        """A batch for each segment, cut where it would grow too large for a node."""
        head = update.head
        assert head is not None
        size, tables = head.segment_size, self._tables
        for _, rows in groupby(sorted(update.rows, key=lambda row: row.seq_nr), key=lambda row: segment_of(row.seq_nr, size)):
            batch: list[Any] = []
            weight = 0
            for row in rows:
                batch.append(tables.bound("insert_row", *row_values(self.topic, update.id, head, row, base)))
                weight += 200 + (len(row.payload.data) if row.payload else 0)
                if len(batch) >= _BATCH_ROWS or weight >= _BATCH_BYTES:
                    yield tables.requests.batch(batch)
                    batch, weight = [], 0
            if batch:
                yield tables.requests.batch(batch) if len(batch) > 1 else batch[0]

    def _head_write(self, update: JournalUpdate, raw: StoredHead | None, jumps: Jumps, pointer: int, time: int) -> Any:
        assert update.head is not None
        before = before_of(pointer, None if update.purges else update.stored)
        segment = raw.segment if raw else head_segment(update.id, HEAD_SEGMENTS)
        replaces = raw is not None
        values = head_values(self.topic, segment, update.id, update.head, before=before, time=time, replaces=replaces, jumps=jumps)
        return self._tables.bound("insert_head", *values)

    def _deletions(self, update: JournalUpdate, stored: Head, jumps: Jumps, time: int) -> Iterator[Any]:
        """Whole segments where all of their numbers go, and the beginning of the last one."""
        size, delete_to = stored.segment_size, update.delete_to
        last = segment_of(delete_to, size)
        for segment in segments_between(segment_of(stored.deleted + 1, size), last - 1, jumps):
            yield self._tables.bound("delete_segment", time, update.id, self.topic, segment)
        yield self._tables.bound("delete_rows", time, update.id, self.topic, last, delete_to)

    def _journal_gone(self, id: str, raw: StoredHead, time: int) -> Iterator[Any]:
        size, last = raw.head.segment_size, raw.head.last
        before = raw.before.seq_nr if raw.before else 0
        for segment in segments_between(0, segment_of(max(last, before, 1), size) + 1, raw.jumps):
            yield self._tables.bound("delete_segment", time, id, self.topic, segment)
        yield self._tables.bound("delete_head", time, self.topic, raw.segment, id)

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


def _jumps(update: JournalUpdate, head: Head, raw: StoredHead | None) -> Jumps:
    """The empty stretches of a journal after a change. Its last number counts also where the event has gone already."""
    lives_on = update.stored is not None and raw is not None and not update.purges
    known, last = (raw.jumps, update.stored.last) if lives_on and raw and update.stored else ((), head.deleted)
    return jumps_after(known, head.segment_size, last, [head.seq_nr, *(row.seq_nr for row in update.rows)])
