"""The steps of a change of journals in Cassandra's tables, in their order (`headwater.journal.cassandra_partition`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from headwater.journal.apply import JournalUpdate, journal_updates
from headwater.journal.cassandra_rows import BEFORE, StoredHead, before_of, head_values, row_values, same_life
from headwater.journal.cassandra_view import HEAD_SEGMENTS, CassandraTables
from headwater.journal.change import EventRow, JournalChange, PartitionChange
from headwater.journal.head import Head
from headwater.journal.row_times import Taken, apart
from headwater.journal.segment_jumps import Jumps, jumps_after, segments_between
from headwater.journal.store import head_segment, segment_of
from headwater.journal.tally import CopyTally

_BATCH_ROWS = 100
_BATCH_BYTES = 64 << 10


class CassandraChanges:
    """Writes journals of one partition. `topic`: the name under which the tables hold them."""

    def __init__(self, tables: CassandraTables, topic: str, partition: int, segment_size: int) -> None:
        self._tables, self._topic, self._partition, self._segment_size = tables, topic, partition, segment_size

    def apply(
        self,
        change: PartitionChange,
        journals: Sequence[JournalChange],
        stored: Mapping[str, StoredHead],
        *,
        base: int,
        pointer: int,
        again: bool,
        tally: CopyTally | None,
    ) -> None:
        """Apply what a change does to these journals of it. `stored`: heads as they lie in the table. `again`: the change was begun
        before, from the same pointer."""
        tables = self._tables
        raws = {journal.id: stored[journal.id] for journal in journals if journal.id in stored}
        heads = {id: head for id, raw in raws.items() if (head := raw.at(pointer, self._partition)) is not None}
        change = msgspec.structs.replace(change, journals=tuple(journals))
        all_updates = journal_updates(change, heads, segment_size=self._segment_size, tally=tally)
        updates = [update for update in all_updates if update.changed]
        folds = {journal.id: journal.fold for journal in journals}
        jumps = {update.id: _jumps(update, update.head, stored.get(update.id)) for update in updates if update.head is not None}
        write = tables.requests.write
        purged = [(update, stored[update.id]) for update in updates if update.purges and update.id in stored]
        write(self._purge_intent(update.id, raw, pointer, base + folds[update.id].purged) for update, raw in purged)
        write(
            request
            for update, raw in purged
            for request in self._purge_segments(update.id, raw, pointer, base + folds[update.id].purged, again=again)
        )
        write(
            tables.bound("delete_head", base + folds[update.id].offset, self._topic, raw.segment, update.id)
            for update, raw in purged
            if update.head is None
        )
        write(request for update in self._apart(updates) for request in self.row_batches(update, base))
        write(
            self.head_write(update, stored.get(update.id), jumps[update.id], pointer, base + folds[update.id].offset)
            for update in updates
            if update.head is not None
        )
        write(
            request
            for update in updates
            if update.delete_to and update.stored is not None
            for request in self._deletions(update, update.stored, jumps[update.id], base + folds[update.id].offset)
        )

    def _purge_intent(self, id: str, raw: StoredHead, pointer: int, time: int) -> Any:
        """Hide all events before the first segment goes, as kafka-journal does: its readers see a journal that is deleted, not half. What
        was deleted before is kept beside, for whoever has to finish this."""
        last, before = raw.head.last, before_of(pointer, raw.intended(pointer) or raw.head)
        return self._tables.bound("intend_purge", time, last, last, BEFORE, before, self._topic, raw.segment, id)

    def _purge_segments(self, id: str, raw: StoredHead, pointer: int, time: int, *, again: bool) -> Iterator[Any]:
        """The segments of the life that ends, and one on either side, where a kafka-journal that died may have left rows."""
        stored = raw.intended(pointer) or raw.head
        size = stored.segment_size
        first, last = max(segment_of(stored.deleted or 1, size) - 1, 0), segment_of(max(stored.last, 1), size) + 1
        if again:  # the change that was begun may have written rows behind the head
            while self._tables.rows("any_row", id, self._topic, last):
                last += 1
        for segment in segments_between(first, last, raw.jumps):
            yield self._tables.bound("delete_segment", time, id, self._topic, segment)

    def _apart(self, updates: list[JournalUpdate]) -> Iterator[JournalUpdate]:
        """Updates whose rows have keys of their own: others of their number and millisecond would overwrite them.

        Only numbers that are not above the stored ones can meet a stored row, so only those are looked for.
        """
        for update in updates:
            if not update.rows or update.head is None:
                continue
            taken: Taken = {}
            stored = update.stored
            if stored is not None and not update.purges:
                below = sorted(row.seq_nr for row in update.rows if row.seq_nr <= stored.last)
                taken = self._taken(update.id, update.head, below) if below else {}
            rows: list[EventRow] = []
            for row in apart(update.rows, taken):
                if not (rows and (rows[-1].seq_nr, rows[-1].offset) == (row.seq_nr, row.offset)):
                    rows.append(row)
            yield msgspec.structs.replace(update, rows=tuple(rows))

    def _taken(self, id: str, head: Head, below: list[int]) -> Taken:
        """The keys of stored rows with these numbers, and the partition and offset that they are of."""
        tables = self._tables
        segments = sorted({segment_of(number, head.segment_size) for number in below})
        answers = tables.requests.all(tables.bound("row_keys", id, self._topic, segment, below[0], below[-1]) for segment in segments)
        return {
            (seq_nr, timestamp): (partition, offset)
            for rows in answers
            for seq_nr, timestamp, partition, offset, record_id in rows
            if same_life(record_id, head)
        }

    def row_batches(self, update: JournalUpdate, base: int) -> Iterator[Any]:
        """The writes of rows that come: a batch for each segment, cut where it would grow too large for a node."""
        head = update.head
        assert head is not None
        size, tables = head.segment_size, self._tables
        for _, rows in groupby(sorted(update.rows, key=lambda row: row.seq_nr), key=lambda row: segment_of(row.seq_nr, size)):
            batch: list[Any] = []
            weight = 0
            for row in rows:
                batch.append(tables.bound("insert_row", *row_values(self._topic, update.id, head, row, base)))
                weight += 200 + (len(row.payload.data) if row.payload else 0)
                if len(batch) >= _BATCH_ROWS or weight >= _BATCH_BYTES:
                    yield tables.requests.batch(batch)
                    batch, weight = [], 0
            if batch:
                yield tables.requests.batch(batch) if len(batch) > 1 else batch[0]

    def head_write(self, update: JournalUpdate, raw: StoredHead | None, jumps: Jumps, pointer: int, time: int) -> Any:
        """The write of a head. `raw`: what lies there now; `pointer`: of the partition before the change."""
        assert update.head is not None
        before = before_of(pointer, None if update.purges else update.stored)
        segment = raw.segment if raw else head_segment(update.id, HEAD_SEGMENTS)
        replaces = raw is not None
        values = head_values(self._topic, segment, update.id, update.head, before=before, time=time, replaces=replaces, jumps=jumps)
        return self._tables.bound("insert_head", *values)

    def _deletions(self, update: JournalUpdate, stored: Head, jumps: Jumps, time: int) -> Iterator[Any]:
        """Whole segments where all of their numbers go, and the beginning of the last one."""
        size, delete_to = stored.segment_size, update.delete_to
        last = segment_of(delete_to, size)
        for segment in segments_between(segment_of(stored.deleted + 1, size), last - 1, jumps):
            yield self._tables.bound("delete_segment", time, update.id, self._topic, segment)
        yield self._tables.bound("delete_rows", time, update.id, self._topic, last, delete_to)

    def gone(self, id: str, raw: StoredHead, time: int) -> Iterator[Any]:
        """The writes that remove a journal with all of its rows, also those that an unfinished change was to delete. As with a purge, one
        segment more on either side."""
        size, last, deleted = raw.head.segment_size, raw.head.last, raw.head.deleted
        if raw.before is not None and raw.before.offset >= 0:
            last, deleted = max(last, raw.before.seq_nr), min(deleted, raw.before.delete_to or 0)
        first = max(segment_of(deleted or 1, size) - 1, 0)
        for segment in segments_between(first, segment_of(max(last, 1), size) + 1, raw.jumps):
            yield self._tables.bound("delete_segment", time, id, self._topic, segment)
        yield self._tables.bound("delete_head", time, self._topic, raw.segment, id)


def _jumps(update: JournalUpdate, head: Head, raw: StoredHead | None) -> Jumps:
    """The empty stretches of a journal after a change. Its last number counts also where the event has gone already."""
    lives_on = update.stored is not None and raw is not None and not update.purges
    known, last = (raw.jumps, update.stored.last) if lives_on and raw and update.stored else ((), head.deleted)
    return jumps_after(known, head.segment_size, last, [head.seq_nr, *(row.seq_nr for row in update.rows)])
