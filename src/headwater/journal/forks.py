"""Forks: numbers of journals that several events have, as two writers make them, in the copy and in the log behind it."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.core.errors import UnreadableRecord
from headwater.journal.action import Append
from headwater.journal.append_rows import rows_of
from headwater.journal.discovery import JournalTopic
from headwater.journal.head import with_rows_up_to
from headwater.journal.partition import NOTHING_COPIED, JournalPartition
from headwater.journal.settings import JournalSettings
from headwater.journal.store import ForkedNumber, JournalStore, PartitionView
from headwater.journal.wire import read_record
from headwater.log import Log

_FETCHED = 100  # records of the tail that are read at once


def topic_forks(log: Log, store: JournalStore, topic: JournalTopic, *, limit: int = 1000) -> list[tuple[int, ForkedNumber]]:
    """The partition of each, and the numbers that several events have, by partition, id and number, up to `limit`.

    Errors: those of the log and the store; `Conflict` where a copy changes faster than it can be looked through; `LogGap`.
    """
    partition_forks: list[tuple[int, ForkedNumber]] = []
    described = log.topic(topic.name)
    for number in range(topic.partitions):
        if len(partition_forks) < limit:
            partition = JournalPartition(log, lambda: store, described, number, settings=JournalSettings())
            forks = partition.viewed(lambda view, partition=partition: _forks(partition, view, limit))  # type: ignore[misc]
            partition_forks += [(number, fork) for fork in forks]
    return partition_forks[:limit]


def _forks(partition: JournalPartition, view: PartitionView | None, limit: int) -> list[ForkedNumber]:
    end, pointer = partition.end(), NOTHING_COPIED if view is None else view.pointer
    tail = _Tail(partition, pointer.offset + 1, end)
    copied = [] if view is None else view.forks(limit)
    again = tail.suspects(view) | {fork.id for fork in copied if fork.id in tail.ids}
    forks = [fork for fork in copied if fork.id not in again]
    for id in again:
        forks += _forked(partition, view, id, end)
    return sorted(forks, key=lambda fork: (fork.id.encode(), fork.seq_nr))[:limit]


class _Tail:
    """The journals with records in [start, end) of a partition. `doubled`: those of which an Append has a number that came before."""

    def __init__(self, partition: JournalPartition, start: int, end: int) -> None:
        self.ids, self.doubled = set[str](), set[str]()
        self._first, last = dict[str, int](), dict[str, int]()
        while start < end and (records := partition.read(start)):
            for record in records:
                start = (record.offset or 0) + 1
                try:
                    action = read_record(record)
                except UnreadableRecord:
                    continue
                if action is None:
                    continue
                self.ids.add(action.id)
                if isinstance(action.action, Append):
                    if action.action.first <= last.get(action.id, 0):
                        self.doubled.add(action.id)
                    self._first[action.id] = min(self._first.get(action.id, action.action.first), action.action.first)
                    last[action.id] = max(last.get(action.id, 0), action.action.last)

    def suspects(self, view: PartitionView | None) -> set[str]:
        """The journals that may have an event in this tail whose number another one has."""
        heads = {} if view is None else {id: view.head(id) for id in self._first if id not in self.doubled}
        return self.doubled | {id for id, head in heads.items() if head is not None and self._first[id] <= head.last}


def _forked(partition: JournalPartition, view: PartitionView | None, id: str, end: int) -> Iterator[ForkedNumber]:
    joined = partition.join(view, id, end)
    if joined.head is None:
        return
    offsets: dict[int, set[int]] = {}
    stored = None if joined.fold.purged >= 0 else joined.stored
    if view is not None and stored is not None:
        for rows in view.rows(id, with_rows_up_to(stored, joined.head), 1):
            for row in rows:
                offsets.setdefault(row.seq_nr, set()).add(row.offset)
    begun = joined.fold.first
    places = [] if begun is None else [place.offset for place in joined.actions.appends(begun.offset)]
    for at in range(0, len(places), _FETCHED):
        for append in partition.appends(places[at : at + _FETCHED]):
            for row in rows_of(append, partition.number):
                offsets.setdefault(row.seq_nr, set()).add(row.offset)
    for number in sorted(offsets):
        if len(offsets[number]) > 1 and joined.head.deleted < number:
            yield ForkedNumber(id, number, tuple(sorted(offsets[number])))
