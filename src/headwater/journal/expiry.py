"""Purges journals whose day of expiry has come: `expire_on <= today`, in UTC.

Candidates come from the store's heads, so a day that was missed is made up for. Each is looked at again with what lies behind the store's
pointer, and the Purge is appended under a guard: a journal that got a record since that look is left alone.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import date
from functools import partial

import msgspec

from headwater.core.errors import BadBounds, NotOwner
from headwater.journal.action import Purge
from headwater.journal.claims import has_claims
from headwater.journal.control import PART, ControlLog
from headwater.journal.counts import partition_counts
from headwater.journal.discovery import JournalTopic
from headwater.journal.grown_expiry import GrownExpiry
from headwater.journal.head import EMPTY, Head, HeadFold, applied
from headwater.journal.names import key_of
from headwater.journal.places import places_of
from headwater.journal.range_fold import fold_range
from headwater.journal.store import JournalStore
from headwater.journal.wire import write_record
from headwater.log import Guard, Log
from headwater.log.record import Record

_PAGE = 1000  # heads
_CHUNK = 5000  # records of the tail
_TOGETHER = 500  # Purges of one append
_TIMES = 5  # how often a partition that grows quickly is looked at again


class ExpiredJournal(msgspec.Struct, frozen=True, kw_only=True):
    """A journal whose day has come. `purged`: False in a dry run, and where it got a record meanwhile."""

    topic: str
    partition: int
    id: str
    expire_on: date
    seq_nr: int
    purged: bool = False


PurgeAppender = Callable[[int, int, Sequence[str]], Sequence[str]]
"""Appends Purges: given the partition, the offset up to which the caller has looked, and ids; returns those that it has purged. Leaves out
journals with a record at or behind that offset. Errors: `BadBounds` where too much lies behind it."""


def expire_journals(
    log: Log,
    store: JournalStore,
    topic: JournalTopic,
    *,
    today: date,
    dry_run: bool = False,
    purge: PurgeAppender | None = None,
    done: set[int] | None = None,
) -> list[ExpiredJournal]:
    """Purge the journals of a topic that have expired by `today`; return them, by partition and id.

    `purge`: for a Kafka topic with an owner, which alone may append; without it such a partition is `NotOwner`. The other partitions are
    done before that is raised. `done`: partitions that are left out; those that are done come in. On a Kafka topic with other writers no
    guard is possible: a record that comes in the moment of the Purge is purged with the rest. Errors: `UnreadableRecord` where
    the tail cannot be read; those of the log and the store.
    """
    control = ControlLog(log, topic.name)
    control.look()
    journals: list[ExpiredJournal] = []
    counts = partition_counts(store, topic) if log.engine == "kafka" else ()
    refusal: NotOwner | None = None
    finished = set[int]() if done is None else done
    before = set(finished)
    for partition in sorted(set(range(topic.partitions)) - finished):
        expiring = _ExpiringPartition(log, topic, partition, control.partition(topic.generation, partition).quarantined)
        expiring.gather(store, today, counts)
        try:
            due, purged = expiring.purge(today, None if dry_run else purge or expiring.append)
        except NotOwner as error:
            refusal = refusal or error
            continue
        finished.add(partition)
        journals += _shown(topic, partition, due, purged, today)
    if len(counts) > 1:
        grown = GrownExpiry(log, store, topic, counts, expired=lambda head: has_expired(head, today))
        for place, ids in grown.candidates().items():
            if place in before:
                continue
            appender = _ExpiringPartition(log, topic, place, ())
            try:
                due, purged = grown.purge(place, ids, None if dry_run else purge or appender.append)
            except NotOwner as error:
                refusal = refusal or error
                finished.discard(place)
                continue
            journals += _shown(topic, place, due, purged, today)
        journals.sort(key=lambda journal: (journal.partition, journal.id))
    if refusal is not None:
        raise refusal
    return journals


def _shown(topic: JournalTopic, partition: int, due: Mapping[str, Head], done: Container[str], today: date) -> list[ExpiredJournal]:
    return [
        ExpiredJournal(
            topic=topic.name, partition=partition, id=id, expire_on=head.expire_on or today, seq_nr=head.seq_nr, purged=id in done
        )
        for id, head in sorted(due.items())
    ]


def has_expired(head: Head, today: date) -> bool:
    """Whether a journal's day has come."""
    return head.expire_on is not None and head.expire_on <= today


class _ExpiringPartition:
    """The candidates of one partition, and what the log says about them behind the store's pointer."""

    def __init__(self, log: Log, topic: JournalTopic, partition: int, skip: tuple[int, ...]) -> None:
        self._log, self._topic, self._partition, self._skip = log, topic, partition, skip
        self._stored: dict[str, Head] = {}
        self._folds: dict[str, HeadFold] = {}
        self._next = self._epoch = 0

    def gather(self, store: JournalStore, today: date, counts: Sequence[int] = ()) -> None:
        """Find the stored heads whose day has come. `counts`: the numbers of partitions that a topic which grew has had: journals with
        several places are left to `GrownExpiry`."""
        copy = store.partition(self._topic.name, self._partition, self._topic.generation, create=False)
        if copy is None:
            return
        with copy.view() as view:
            self._next, self._epoch = view.pointer.offset + 1, view.pointer.epoch
            after: str | None = None
            while page := view.heads(after, _PAGE):
                self._stored |= {
                    id: head
                    for id, head in page
                    if has_expired(head, today) and (len(counts) < 2 or places_of(key_of(id), counts) == (self._partition,))
                }
                after = page[-1][0]

    def purge(self, today: date, append: PurgeAppender | None) -> tuple[dict[str, Head], set[str]]:
        """The journals that have expired with what the tail says, and those of them that are purged."""
        due: dict[str, Head] = {}
        done: set[str] = set()
        for _ in range(_TIMES if self._stored else 0):
            self._read_on()
            due = {id: head for id, head in self._now().items() if has_expired(head, today)}
            left = [id for id in due if id not in done]
            if append is None or not left:
                break
            try:
                for first in range(0, len(left), _TOGETHER):
                    done.update(append(self._partition, self._next, left[first : first + _TOGETHER]))
                break
            except BadBounds:  # too much came since: look again
                continue
        return due, done

    def append(self, partition: int, since: int, ids: Sequence[str]) -> Sequence[str]:
        """The `PurgeAppender` of this process."""
        log, name = self._log, self._topic.name
        left = list(ids)
        if log.engine == "kafka":
            if log.epoch(name, partition):
                raise NotOwner(
                    f"The journals of {name}/{partition} belong to a server, which alone may purge them.",
                    hint=f"Ask it with `headwater journal expire {name} --server URL`.",
                )
            touched = self._touched(log.read(name, partition, since, limit=65_536) if log.bounds(name, partition).end > since else [], left)
            left = [id for id in left if id not in touched]
            if left:
                log.append(name, partition, self._records(left), part=PART)
            return left
        while left:
            try:
                guard = Guard(since, partial(self._refuse_touched, left), self._topic.generation)
                log.append(name, partition, self._records(left), guard=guard, part=PART)
                return left
            except _Touched as touched_since:
                left = [id for id in left if id not in touched_since.ids]
        return left

    def _records(self, ids: Sequence[str]) -> list[Record]:
        return [write_record(id, Purge(origin=socket.gethostname())) for id in ids]

    def _touched(self, records: Sequence[Record], ids: Sequence[str]) -> set[str]:
        keys = {record.key for record in records}
        return {id for id in ids if key_of(id) in keys}

    def _refuse_touched(self, ids: Sequence[str], records: Sequence[Record]) -> None:
        if touched := self._touched(records, ids):
            raise _Touched(touched)

    def _read_on(self) -> None:
        """Fold what lies behind the last look. Errors: `UnreadableRecord`."""
        name, generation, end = self._topic.name, self._topic.generation, self._log.bounds(self._topic.name, self._partition).end
        while self._next < end:
            records = self._log.read(name, self._partition, self._next, limit=_CHUNK)
            stop = (records[-1].offset or 0) + 1 if records else end
            folded = fold_range(
                topic=name,
                partition=self._partition,
                generation=generation,
                start=self._next,
                end=stop,
                records=records,
                epoch=self._epoch,
                skip=self._skip,
                claimed=has_claims(self._log, name),
            )
            if folded.poison is not None:
                raise folded.poison
            for journal in folded.change.journals:
                if journal.id in self._stored:
                    self._folds[journal.id] = self._folds.get(journal.id, EMPTY).then(journal.fold)
            self._next, self._epoch = stop, folded.change.epoch

    def _now(self) -> dict[str, Head]:
        """The candidates' heads with what the tail says."""
        generation = self._topic.generation
        heads = {
            id: applied(self._folds.get(id, EMPTY), head, partition=self._partition, generation=generation, segment_size=head.segment_size)
            for id, head in self._stored.items()
        }
        return {id: head for id, head in heads.items() if head is not None}


class _Touched(Exception):
    """Some of the journals got records since they were looked at."""

    def __init__(self, ids: set[str]) -> None:
        super().__init__(f"{len(ids)} journals got records meanwhile")
        self.ids = ids
