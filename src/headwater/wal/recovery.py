"""The state of a region after a crash (rule P5): the newest whole snapshot, and the records behind it.

1. Read the snapshots of the meta topic, the newest first. One that is damaged, or of another data topic, is passed over and told.
2. Restore it, and apply the records of the data topic from its watermark on.
3. Without a whole snapshot, apply all records, which is right only where the log still begins at 0. Else `MetaLost`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from headwater.core.errors import Damaged, MetaLost, OffsetGone, UnknownTopic
from headwater.log import Log
from headwater.log.epochs import Epochs
from headwater.log.record import Record
from headwater.wal.fold import RegionFold
from headwater.wal.layout import MalformedRecord, decode_meta_key
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics
from headwater.wal.remainder import Remainder
from headwater.wal.snapshot import SnapshotChunk, check_tables, decode_chunk, joined

Beat = Callable[[], None]
_Tables = dict[int, tuple[int, int, int]]  # next, marked and watermark
_TRIES = 20  # of one who looks beside an owner that cleans
_NAMED = 10  # tables in the text of an error


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
    """Why snapshots could not be used, the newest first; and what was lost."""
    accepted: bool = False
    """Whether something was lost, and that was accepted: only a snapshot of this state can be recovered from. Also where a snapshot is
    ahead of the log: without a newer one, it would be believed once the log has grown up to it."""


def recover(
    log: Log, topics: RegionTopics, *, accept_loss: bool = False, skip: int = 0, end: int | None = None, beat: Beat = lambda: None
) -> Recovered:
    """Errors: `MetaLost`; `Damaged`, also for a snapshot that is ahead of the log, as after a restore of one of the two from a backup.

    `accept_loss`: where something that a table needs is lost, go on with what is left of it. `skip`: so many of the newest snapshots are
    passed over. `end`: apply the records before this offset alone. `beat`: is called between two batches, and may raise. Who only looks
    calls it as well: an owner that cleans meanwhile makes it begin again.
    """
    for left in reversed(range(_TRIES)):
        starts, generation = _starts(log, topics), log.topic(topics.data).generation  # before all that is read: of no later topic
        try:
            recovered = _recovered(log, topics, accept_loss=accept_loss, skip=skip, end=end, beat=beat)
        except (OffsetGone, Damaged):
            if not left or _starts(log, topics) == starts:
                raise
            continue
        recovered.meta.generation = generation
        return recovered
    raise AssertionError("the last try returns or raises")


def _starts(log: Log, topics: RegionTopics) -> tuple[int, int]:
    try:
        return log.bounds(topics.data, 0).start, log.bounds(topics.meta, 0).start
    except UnknownTopic:  # of the meta topic; without the data topic, reading it raises
        return 0, -1


def _recovered(log: Log, topics: RegionTopics, *, accept_loss: bool, skip: int, end: int | None, beat: Beat) -> Recovered:
    good, problems, foreign = _snapshots(log, topics)
    bounds = log.bounds(topics.data, 0)  # after the snapshots: an owner that writes meanwhile stores only what is in the log already
    # One that is ahead of the log tells of another course of events, and must never count, when the log has grown up to it neither.
    stored = sorted((candidate for candidate, _ in good if candidate.watermark <= bounds.end), key=lambda candidate: candidate.first)
    ahead = False
    for snapshot, meta in good[skip:]:
        if snapshot.watermark > (bounds.end if end is None else end):
            newer = f"ends at {bounds.end}, and its snapshot knows those before {snapshot.watermark}: it is newer"
            if not accept_loss:
                raise Damaged(f"The log of region {topics} {newer}.", hint=_same_backup(topics))
            problems.append(f"the log {newer}")
            ahead = True
        elif snapshot.watermark < bounds.start:
            problems.append(
                f"the one at {snapshot.first} of {topics.meta} needs the log from {snapshot.watermark} on, which begins at {bounds.start}"
            )
        else:
            try:
                records = _scanned(log, topics, meta, start=snapshot.watermark, end=end, beat=beat)
            except Damaged as error:
                if not accept_loss:
                    raise
                return _repaired(log, topics, meta, start=bounds.start, problems=[*problems, str(error)])
            lost = _cut_off(log, topics, meta, start=bounds.start, accept_loss=accept_loss)
            return Recovered(meta=meta, snapshots=stored, records=records, problems=problems + lost, accepted=bool(lost) or ahead)
    if not good and foreign > bounds.end and not accept_loss:  # the data topic was lost and made anew, or the meta topic is not its own
        raise Damaged(
            f"The log of region {topics} ends at {bounds.end}, and a snapshot knows those before {foreign}: it is newer, "
            f"and of another topic {topics.data}.",
            hint=_same_backup(topics),
        )
    kafka_state = _of_wal_on_kafka(log, topics)
    if kafka_state is None or kafka_state[0] < bounds.start:
        kafka_state = bounds.start, {}
    elif (start := kafka_state[0]) <= bounds.end:
        left, records, lost = _left(log, topics, start, kafka_state[1])
        if lost and not accept_loss:
            raise _lost(topics, bounds.start, lost)
        return Recovered(meta=left, snapshots=[], records=records, problems=problems + lost, accepted=bool(lost) or ahead)
    if bounds.start == 0:
        meta = RegionMeta()
        try:
            records = _scanned(log, topics, meta, start=0, end=end, beat=beat)
        except Damaged as error:
            if not accept_loss:
                raise
            return _repaired(log, topics, meta, start=0, problems=[*problems, str(error)])
        return Recovered(meta=meta, snapshots=[], records=records, problems=problems, accepted=bool(good) or foreign > bounds.end)
    left, records, _ = _left(log, topics, bounds.start)
    if not accept_loss:
        reason = "; ".join(problems) or "there is none"
        raise MetaLost(
            f"Region {topics} cannot be recovered: its log begins at {bounds.start}, and no snapshot is whole ({reason}). "
            f"Left are {_named(left)}.",
            hint=f"Restore {topics.meta} from a backup, or go on with what is left: `headwater wal recover {topics} --accept-loss`.",
        )
    return Recovered(meta=left, snapshots=[], records=records, problems=problems, accepted=True)


def _same_backup(topics: RegionTopics) -> str:
    return (
        f"Restore both of {topics.data} and {topics.meta} from the same backup, or go on with what is left: "
        f"`headwater wal recover {topics} --accept-loss`."
    )


def full_scan(log: Log, topics: RegionTopics, end: int | None = None, beat: Beat = lambda: None) -> Recovered:
    """The state by the data topic alone, for `verify`; `end`: by its records before this offset. `beat`: as for `recover`.

    Errors: `MetaLost` where it does not begin at 0; `Damaged`.
    """
    start = log.bounds(topics.data, 0).start
    if start > 0:
        raise MetaLost(
            f"The log of region {topics} begins at {start}: the rest cannot be read.", hint="Only a log from 0 on can be verified."
        )
    meta = RegionMeta()
    records = _scanned(log, topics, meta, start=0, end=end, beat=beat)
    return Recovered(meta=meta, snapshots=[], records=records, problems=[])


def _scanned(log: Log, topics: RegionTopics, meta: RegionMeta, *, start: int, end: int | None, beat: Beat) -> int:
    """Apply the records from `start` on; return how many there were. Errors: `Damaged`, also where offsets have no record."""
    fold = RegionFold(meta, topics.data, topics.region)
    for batch in _without_holes(log, topics, start, end):
        beat()
        fold.apply(batch)
    return fold.records


def _without_holes(log: Log, topics: RegionTopics, start: int, end: int | None) -> Iterator[pa.RecordBatch]:
    """The records from `start` on. Errors: `Damaged` where some are missing, before one that lies behind them is given.

    No append of the embedded engine leaves an offset without a record, whatever fails: a repair of the log has cut it. Sequences alone do
    not show that: a mark may be missing, or the last payloads, whose sequences would be given again. On Kafka transactions leave holes.
    """
    until = log.bounds(topics.data, 0).end if end is None else end  # before the scan: an owner may write meanwhile
    at, dense = start, log.engine == "embedded"
    for batch in log.scan(topics.data, 0, start, end):
        offsets = batch.column("offset").to_numpy()
        holes = np.flatnonzero(offsets != np.arange(at, at + len(offsets)))
        if dense and len(holes):
            first = int(holes[0])
            yield batch.slice(0, first)
            raise _missing(topics, at + first, int(offsets[first]))
        yield batch
        at = int(offsets[-1]) + 1
    if dense and at < until:
        raise _missing(topics, at, until)


def has_holes(log: Log, topics: RegionTopics, end: int) -> bool:
    """Whether offsets before `end` have no record, as after a repair of the log. Errors: `Damaged` for what cannot be read."""
    bounds = log.bounds(topics.data, 0)
    return sum(len(batch) for batch in log.scan(topics.data, 0, bounds.start, end)) < end - bounds.start


def _missing(topics: RegionTopics, begin: int, end: int) -> Damaged:
    span = f"offset {begin}" if end == begin + 1 else f"offsets {begin} to {end - 1}"
    return Damaged(
        f"The records at {span} of {topics.data} are lost, as after a repair of the log: payloads, marks or drops that were acknowledged.",
        hint=f"Restore {topics.data} and {topics.meta} from a backup, or go on with what is left, where sequences of lost payloads may be "
        f"given again: `headwater wal recover {topics} --accept-loss`.",
    )


def _left(log: Log, topics: RegionTopics, start: int, tables: _Tables | None = None) -> tuple[RegionMeta, int, list[str]]:
    """The state by the records from `start` on, how many there were, and what is missing of `tables`."""
    left, end = Remainder(watermark=start, tables=tables), log.bounds(topics.data, 0).end
    fold = RegionFold(left, topics.data, topics.region)
    for batch in log.scan(topics.data, 0, start):
        fold.apply(batch)
    left.watermark = max(left.watermark, end)  # what is missing before the end is lost once, and accepted once
    return left.meta(), fold.records, left.lost


def _repaired(log: Log, topics: RegionTopics, meta: RegionMeta, *, start: int, problems: list[str]) -> Recovered:
    """The state by a log from whose midst records are lost, as after a repair of it. `meta`: up to there; what was flushed stays so."""
    tables = {number: (table.marked, table.marked, table.watermark) for number, table in meta.tables.items()}
    left, records, lost = _left(log, topics, start, tables)
    return Recovered(meta=left, snapshots=[], records=records, problems=problems + lost, accepted=True)


def _cut_off(log: Log, topics: RegionTopics, meta: RegionMeta, *, start: int, accept_loss: bool) -> list[str]:
    """What tables need of the log before its beginning, which nothing of ours removes: by retention, or by somebody's hand.

    With `accept_loss`, what is missing in the midst of it counts as well, and is marked with what lies before. Errors: `Damaged`.
    """
    left_offsets = _offsets(log, topics, max(start, meta.safe_offset)) if accept_loss else None
    lost = []
    for number, table in meta.tables.items():
        if left_offsets is not None or ((safe := table.safe_offset) is not None and safe < start):
            column = table.column()
            gone = np.flatnonzero(column < start if left_offsets is None else ~np.isin(column, left_offsets))
            if len(gone):
                end = table.marked + int(gone[-1]) + 1
                lost.append(f"table {number} has lost {table.marked} to {end - 1}")
                if accept_loss:
                    table.mark(end)
    if lost and not accept_loss:
        raise _lost(topics, start, lost)
    return lost


def _offsets(log: Log, topics: RegionTopics, start: int) -> np.ndarray:
    """Those of all records that are there."""
    columns = [batch.column("offset").to_numpy() for batch in log.scan(topics.data, 0, start)]
    return np.concatenate(columns) if columns else np.zeros(0, np.int64)


def _lost(topics: RegionTopics, start: int, lost: Sequence[str]) -> Damaged:
    return Damaged(
        f"The log of region {topics} begins at {start}, which cuts off what tables need: {_some(lost)}.",
        hint=f"Restore {topics.data} from a backup, or go on with what is left: `headwater wal recover {topics} --accept-loss`.",
    )


def _named(meta: RegionMeta) -> str:
    """Tables and where they begin, as far as they can be known."""
    return _some([f"table {number} from {table.marked} on, at {table.safe_offset}" for number, table in meta.tables.items() if table.live])


def _some(texts: Sequence[str]) -> str:
    return "; ".join([*texts[:_NAMED], *([f"and {len(texts) - _NAMED} more"] if len(texts) > _NAMED else [])]) or "no payloads"


def _snapshots(log: Log, topics: RegionTopics) -> tuple[list[tuple[StoredSnapshot, RegionMeta]], list[str], int]:
    """The whole snapshots of this log, the newest first; what is wrong with the others; and the highest watermark of another log's."""
    generation = log.topic(topics.data).generation
    good: list[tuple[StoredSnapshot, RegionMeta]] = []
    problems, foreign = list[str](), 0
    try:
        groups = list(_groups(log, topics))
    except UnknownTopic:
        return [], [f"there is no topic {topics.meta}"], 0
    for chunks, problem in reversed(groups):
        first = chunks[0][0] if chunks else -1
        try:
            if problem:
                raise MalformedRecord(problem)
            snapshot_chunks = [chunk for _, chunk in chunks]
            if snapshot_chunks[0].generation not in ("", generation):  # its offsets mean nothing here, whether or not they fit
                of = f"generation {snapshot_chunks[0].generation}, and this one is {generation}"
                problems.append(f"the one at {first} of {topics.meta} is of another topic {topics.data}, of {of}")
                foreign = max(foreign, snapshot_chunks[0].watermark)
            elif snapshot_chunks[0].count:  # others hold no map
                good.append((StoredSnapshot(first, chunks[-1][0], snapshot_chunks[0].watermark), joined(snapshot_chunks)))
            else:
                check_tables(snapshot_chunks[-1].tables)
        except MalformedRecord as error:
            problems.append(f"the one at {first} of {topics.meta} is damaged: {error}" if first >= 0 else str(error))
    return good, problems, foreign


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
        if chunk.number >= chunk.count - 1:  # the last one: what comes behind it can neither complete nor spoil this snapshot
            yield group, ""
            group = []
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


def _of_wal_on_kafka(log: Log, topics: RegionTopics) -> tuple[int, _Tables] | None:
    """A snapshot that the WAL on Kafka has made: next, marked and watermark of each table. It has no map: the log is read from the
    lowest offset that a table needs."""
    try:
        newest = next((chunks for chunks, problem in reversed(list(_groups(log, topics))) if chunks and not problem), None)
    except UnknownTopic:
        return None
    if newest is None or newest[-1][1].count:
        return None
    rows = newest[-1][1].tables
    try:
        check_tables(rows)
    except MalformedRecord:  # which of its rows holds, nobody knows: it is no snapshot
        return None
    lowest = min((safe for *_, safe in rows if safe is not None), default=max((watermark for *_, watermark, _ in rows), default=0))
    return lowest, {number: (next, marked, watermark) for number, next, marked, watermark, _ in rows}
