"""The state of a region after a crash (rule P5): the newest whole snapshot, and the records behind it.

1. Read the snapshots of the meta topic, the newest first. One that is damaged is passed over and told.
2. Restore it, and apply the records of the data topic from its watermark on.
3. Without a whole snapshot, apply all records, which is right only where the log still begins at 0. Else `MetaLost`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headwater.core.errors import Damaged, MetaLost
from headwater.log import Log
from headwater.log.epochs import Epochs
from headwater.log.record import Record
from headwater.wal.fold import RegionFold
from headwater.wal.layout import MalformedRecord, decode_meta_key
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics
from headwater.wal.snapshot import SnapshotChunk, decode_chunk, joined
from headwater.wal.table_meta import TableMeta


class StoredSnapshot(msgspec.Struct, frozen=True):
    """A snapshot of which every chunk is in the meta topic: the offsets of its first and its last record, and its watermark."""

    first: int
    last: int
    watermark: int


class Recovered(msgspec.Struct, kw_only=True):
    """What was recovered, and from what. `records`: how many of the data topic were read for it."""

    meta: RegionMeta
    snapshots: list[StoredSnapshot]
    records: int
    problems: list[str]
    """Why snapshots could not be used, the newest first."""
    lost: bool = False
    """The beginning of the log is lost, and no snapshot knows it: every table begins with what is left."""


class _Candidate(msgspec.Struct):
    chunks: list[tuple[int, SnapshotChunk]]


def recover(log: Log, topics: RegionTopics, *, accept_loss: bool = False, skip: int = 0, end: int | None = None) -> Recovered:
    """Errors: `MetaLost`; `Damaged`, also for a snapshot that is ahead of the log, as after a restore of one of the two from a backup.

    `accept_loss`: where the beginning of the log is lost, every table begins with what is left of it. `skip`: so many of the newest
    snapshots are passed over. `end`: apply the records before this offset alone.
    """
    good, problems = _snapshots(log, topics)
    bounds = log.bounds(topics.data, 0)  # after the snapshots: an owner that writes meanwhile stores only what is in the log already
    for stored, meta in good[skip:]:
        if stored.watermark > (bounds.end if end is None else end):
            raise Damaged(
                f"The log of region {topics} ends at {bounds.end}, and its snapshot knows those before {stored.watermark}: it is newer.",
                hint=f"Restore both of {topics.data} and {topics.meta} from the same backup.",
            )
        if stored.watermark < bounds.start:
            problems.append(f"the one at {stored.first} needs the log from {stored.watermark} on, which begins at {bounds.start}")
            continue
        return _scanned(log, topics, meta, start=stored.watermark, snapshots=[one for one, _ in good], problems=problems, end=end)
    old = _of_wal_on_kafka(log, topics)
    if old is not None and old.watermark >= bounds.start:
        return _scanned(log, topics, old, start=old.watermark, snapshots=[], problems=problems, lenient=True)
    if bounds.start > 0 and not accept_loss:
        reason = "; ".join(problems) or "there is none"
        raise MetaLost(
            f"Region {topics} cannot be recovered: its log begins at {bounds.start}, and no snapshot is whole ({reason}).",
            hint=f"Restore {topics.meta} from a backup, or go on with what is left: `headwater wal recover {topics} --accept-loss`.",
        )
    empty, lost = RegionMeta(watermark=bounds.start), bounds.start > 0
    found = _scanned(log, topics, empty, start=bounds.start, snapshots=[], problems=problems, lenient=lost, end=end)
    found.lost = lost
    return found


def full_scan(log: Log, topics: RegionTopics, end: int | None = None) -> Recovered:
    """The state by the data topic alone, for `verify`; `end`: by its records before this offset.

    Errors: `MetaLost` where it does not begin at 0; `Damaged`.
    """
    start = log.bounds(topics.data, 0).start
    if start > 0:
        raise MetaLost(
            f"The log of region {topics} begins at {start}: the rest cannot be read.", hint="Only a log from 0 on can be verified."
        )
    return _scanned(log, topics, RegionMeta(), start=0, snapshots=[], problems=[], end=end)


def _scanned(
    log: Log,
    topics: RegionTopics,
    meta: RegionMeta,
    *,
    start: int,
    snapshots: Sequence[StoredSnapshot],
    problems: list[str],
    lenient: bool = False,
    end: int | None = None,
) -> Recovered:
    fold = RegionFold(meta, topics.data, topics.region, lenient=lenient)
    for batch in log.scan(topics.data, 0, start, end):
        fold.apply(batch)
    return Recovered(meta=meta, snapshots=sorted(snapshots, key=lambda one: one.first), records=fold.records, problems=problems)


def _snapshots(log: Log, topics: RegionTopics) -> tuple[list[tuple[StoredSnapshot, RegionMeta]], list[str]]:
    """The whole snapshots, the newest first; and what is wrong with the others."""
    good: list[tuple[StoredSnapshot, RegionMeta]] = []
    problems: list[str] = []
    for chunks, problem in reversed(list(_groups(log, topics))):
        first = chunks[0][0] if chunks else -1
        try:
            if problem:
                raise MalformedRecord(problem)
            found = [chunk for _, chunk in chunks]
            if found[0].count:  # others hold no map
                good.append((StoredSnapshot(first, chunks[-1][0], found[0].watermark), joined(found)))
        except MalformedRecord as error:
            problems.append(f"the one at {first} is damaged: {error}" if first >= 0 else str(error))
    return good, problems


def _groups(log: Log, topics: RegionTopics) -> Iterator[tuple[list[tuple[int, SnapshotChunk]], str]]:
    """The chunks of each snapshot in the order of the topic, and what is wrong with one of its records."""
    group: list[tuple[int, SnapshotChunk]] = []
    for record in _meta_records(log, topics):
        offset = record.offset or 0
        try:
            region = decode_meta_key(record.key)
            if region != topics.region:
                raise MalformedRecord(f"it is of region {region}")
            chunk = decode_chunk(record.value)
        except MalformedRecord as error:
            yield group, f"record {offset} of {topics.meta} is no chunk of a snapshot: {error}"
            group = []
            continue
        if chunk.number == 0 and group:
            yield group, ""
            group = []
        group.append((offset, chunk))
    if group:
        yield group, ""


def _meta_records(log: Log, topics: RegionTopics) -> Iterator[Record]:
    bounds, epochs = log.bounds(topics.meta, 0), Epochs()
    at = bounds.start
    while at < bounds.end and (records := log.read(topics.meta, 0, at)):
        for record in records:
            at = (record.offset or 0) + 1
            if epochs.admits(record):
                yield record


def _of_wal_on_kafka(log: Log, topics: RegionTopics) -> RegionMeta | None:
    """The state of a snapshot that the WAL on Kafka has made. It has no map: the log is read from the lowest offset that a table needs."""
    newest = next((chunks for chunks, problem in reversed(list(_groups(log, topics))) if chunks and not problem), None)
    if newest is None or newest[-1][1].count:
        return None
    rows = newest[-1][1].tables
    lowest = min((safe for *_, safe in rows if safe is not None), default=max((watermark for *_, watermark, _ in rows), default=0))
    tables = {number: TableMeta(next=marked, marked=marked, watermark=watermark) for number, _, marked, watermark, _ in rows}
    return RegionMeta(watermark=lowest, tables=tables)
