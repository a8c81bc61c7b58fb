"""The copy of one partition of journals in Cassandra, as a reader sees it.

There is no transaction, so a view goes by the pointer that it has read first: heads that a change has moved since are taken as they were
at that pointer, and rows behind it are left out. What a change may have removed meanwhile is found out by reading the head again before
rows are handed over. A change that is under way may have removed what records up to `pointer.begun` delete: read the log up to there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from headwater.journal.cassandra_rows import StoredHead, changed, event_row, same_life, stored_head
from headwater.journal.change import EventRow, Pointer
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.head import Head
from headwater.journal.segment_jumps import SHORTEST, segments_between
from headwater.journal.store import PartitionView, head_segment, segment_of
from headwater.store import Row
from headwater.store.cassandra.requests import Requests

HEAD_SEGMENTS = 10_000
"""Over so many segments heads are spread."""
OLDER_HEAD_SEGMENTS = 100
"""And those that an older kafka-journal has written."""
_SEGMENTS = 32  # that are read at once


class CassandraTables:
    """The requests that views and changes have in common. `older`: heads may lie where an older kafka-journal has put them."""

    def __init__(self, requests: Requests, statements: Mapping[str, str], *, older: bool) -> None:
        self.requests, self.statements, self.older = requests, statements, older

    def bound(self, name: str, *values: object) -> Any:
        return self.requests.bound(self.statements[name], values)

    def rows(self, name: str, *values: object) -> list[Row]:
        return self.requests.one(self.statements[name], values)

    def heads(self, topic: str, ids: Sequence[str]) -> dict[str, StoredHead]:
        """The heads of those ids that have one, as they lie in the table."""
        heads: dict[str, StoredHead] = {}
        missing = list(ids)
        for count in (HEAD_SEGMENTS, OLDER_HEAD_SEGMENTS)[: 2 if self.older else 1]:
            segments = [head_segment(id, count) for id in missing]
            answers = self.requests.all(self.bound("head", topic, segment, id) for id, segment in zip(missing, segments, strict=True))
            for id, segment, rows in zip(missing, segments, answers, strict=True):
                if rows:
                    heads[id] = stored_head(segment, rows[0])
            missing = [id for id in missing if id not in heads]
        return heads

    def topic_ids(self, topic: str) -> Iterator[tuple[int, str, int]]:
        """The segment, id and partition of each row of `metajournal` under a topic's name, in no order."""
        segments = [segment for name, segment in self.rows("head_segments") if name == topic]
        answers = self.requests.all(self.bound("segment_ids", topic, segment) for segment in segments)
        for segment, rows in zip(segments, answers, strict=True):
            for id, partition in rows:
                yield segment, id, partition


class CassandraPartitionView(PartitionView):
    """The copy at the pointer that was read first. Errors of its calls: `Conflict` where changes have overtaken it; read again."""

    def __init__(self, tables: CassandraTables, topic: str, partition: int, pointer: Pointer, *, clearing: bool) -> None:
        self.pointer, self._tables, self._topic, self._partition = pointer, tables, topic, partition
        self._clearing = clearing
        self._ids: list[tuple[bytes, str]] | None = None

    def head(self, id: str) -> Head | None:
        """The head of a journal whose newest action lies in this partition: a topic that grew may hold others of its id elsewhere."""
        return self.heads_of([id]).get(id)

    def rows(self, id: str, head: Head, start: int, stop: int | None = None, *, batch: int = 1000) -> Iterator[list[EventRow]]:
        first, last = max(start, head.deleted + 1), min(head.seq_nr, MAX_SEQ_NR if stop is None else stop)
        if first > last:
            return
        waiting: list[EventRow] = []
        for rows in self._ordered(id, head, first, last):
            waiting += rows
            if len(waiting) >= batch:
                self._check_unchanged(id, head)
                for at in range(0, len(waiting) - batch + 1, batch):
                    yield waiting[at : at + batch]
                waiting = waiting[len(waiting) - len(waiting) % batch :]
        self._check_unchanged(id, head)
        if waiting:
            yield waiting

    def ids(self, after: str | None = None, limit: int = 1000) -> list[str]:
        ids = self.sorted_ids()
        begin = 0 if after is None else bisect_right(ids, after.encode(), key=lambda pair: pair[0])
        return [id for _, id in ids[begin : begin + limit]]

    def heads(self, after: str | None = None, limit: int = 1000) -> list[tuple[str, Head]]:
        entries: list[tuple[str, Head]] = []
        while len(entries) < limit and (ids := self.ids(after, limit - len(entries))):
            heads = self.heads_of(ids)
            entries += [(id, heads[id]) for id in ids if id in heads]
            after = ids[-1]
        return entries

    def heads_of(self, ids: Sequence[str]) -> dict[str, Head]:
        """The heads of those ids that have one."""
        if self._clearing:
            return {}
        heads: dict[str, Head] = {}
        for id, stored in self._tables.heads(self._topic, ids).items():
            head = stored.at(self.pointer.offset, self._partition) if stored.head.partition == self._partition else None
            if head is not None:
                heads[id] = head
        return heads

    def holds(self, id: str) -> bool:
        """Whether there is a head of a journal, of whatever moment."""
        return id in self._tables.heads(self._topic, [id])

    def sorted_ids(self) -> list[tuple[bytes, str]]:
        """All ids with their bytes, kept for the view's next page: the table is not sorted by them."""
        if self._ids is None:
            ids = {id for _, id, partition in self._tables.topic_ids(self._topic) if partition == self._partition}
            self._ids = [] if self._clearing else sorted((id.encode(), id) for id in ids)
        return self._ids

    def _check_unchanged(self, id: str, head: Head) -> None:
        """Errors: `Conflict` where rows of the head may have gone, and no record before `pointer.begun` says so."""
        stored = self._tables.heads(self._topic, [id]).get(id)
        if stored is not None:
            now = stored.head
            if now.delete_to == head.delete_to and now.record_id == head.record_id:
                return
            if now.partition == self._partition and now.offset < self.pointer.begun:
                return
        raise changed()

    def _ordered(self, id: str, head: Head, first: int, last: int) -> Iterator[list[EventRow]]:
        """Rows of the head's life, by number and then by offset. The table has those of one number by their time."""
        carried_rows: list[EventRow] = []
        for page, complete in self._segments(id, head, first, last):
            rows = carried_rows + [row for row in page if self._counts(row, head)]
            cut = len(rows)
            if not complete and rows:  # the next page may hold more of the last number
                cut = next(at for at in range(len(rows) - 1, -2, -1) if at < 0 or rows[at].seq_nr != rows[-1].seq_nr) + 1
            carried_rows = rows[cut:]
            yield sorted(rows[:cut], key=self._place)
        if carried_rows:
            yield sorted(carried_rows, key=self._place)

    def _segments(self, id: str, head: Head, first: int, last: int) -> Iterator[tuple[list[EventRow], bool]]:
        """Rows as they lie, and whether their numbers are complete. Gaps end nothing: every segment up to the last number is asked."""
        tables, size = self._tables, head.segment_size
        segments = self._asked(id, segment_of(first, size), segment_of(last, size))
        if size > 1000 or segment_of(first, size) == segment_of(last, size):
            for segment in segments:
                for page in tables.requests.pages(tables.statements["rows"], (id, self._topic, segment, first, last)):
                    yield [event_row(columns) for columns in page], False
            return
        while part := list(islice(segments, _SEGMENTS)):
            answers = tables.requests.all(tables.bound("rows", id, self._topic, segment, first, last) for segment in part)
            yield [event_row(columns) for rows in answers for columns in rows], True

    def _asked(self, id: str, first: int, last: int) -> Iterator[int]:
        """The segments that may hold rows. Only a long way is worth reading the head for."""
        stored = self._tables.heads(self._topic, [id]).get(id) if last - first >= SHORTEST else None
        return segments_between(first, last, stored.jumps if stored else ())

    def _counts(self, row: EventRow, head: Head) -> bool:
        return same_life(row.record_id, head) and (row.partition != self._partition or row.offset <= self.pointer.offset)

    def _place(self, row: EventRow) -> tuple[int, bool, int]:
        return row.seq_nr, row.partition == self._partition, row.offset
