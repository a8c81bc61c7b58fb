"""Looks at a region without owning it: its state by the log alone, whoever owns it, on both engines. Creates nothing.

An owner may write and clean meanwhile. A look that it has overtaken is taken again, so that each is of one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from headwater.core.errors import Damaged, OffsetGone, UnknownTopic
from headwater.log import Bounds, Log, Topic
from headwater.log.content import content_of
from headwater.log.json_form import Decoder, show_bytes
from headwater.wal.answers import RegionRecovered, RegionStatistics, RegionSummary, ShownEntry, SnapshotState, TableState
from headwater.wal.bounds import SequenceRange
from headwater.wal.entries import EntryPlaces, LogEntry, PayloadReader, table_places
from headwater.wal.layout import MAX_ID
from headwater.wal.recovery import Recovered, StoredSnapshot, recover
from headwater.wal.region_list import found_regions, known_region
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics
from headwater.wal.settings import shown_settings
from headwater.wal.sizes import mean_sizes
from headwater.wal.table_meta import TableMeta
from headwater.wal.why import Pins, pins_of

T = TypeVar("T")
_LOOKS = 20
_AT_ONCE = 5000  # payloads that are read at once


class RegionView:
    """A region as its log tells it now. Blocking. Errors of every call: `RegionNotFound`; `MetaLost`, `Damaged`."""

    def __init__(self, log: Log, topics: RegionTopics) -> None:
        self.log, self.topics = log, topics

    def topic(self) -> Topic:
        """The data topic."""
        return known_region(self.log, self.topics)

    def recovered(self, *, accept_loss: bool = False) -> Recovered:
        """The state that an owner would recover now. `accept_loss`: as for `recover`."""
        self.topic()
        return self.steady(lambda: recover(self.log, self.topics, accept_loss=accept_loss))

    def table(self, table: int) -> tuple[int, list[LogEntry]]:
        """The next sequence of a table, and its live payloads, of one moment; 1 and nothing for an unknown one."""
        return self.fold_table(table, lambda following, parts: (following, [entry for part in parts for entry in part]))

    def fold_table(self, table: int, fold: Callable[[int, Iterator[list[LogEntry]]], T]) -> T:
        """What `fold` makes of a table: of its next sequence, and of its live payloads, which it gets in parts, so that not all of them are
        in memory at once. Both are of one moment: where an owner has overtaken it, it is called again."""
        self.topic()
        return self.steady(lambda: self._folded(table, fold))

    def _folded(self, table: int, fold: Callable[[int, Iterator[list[LogEntry]]], T]) -> T:
        meta = recover(self.log, self.topics).meta
        return fold(
            meta.tables[table].next if table in meta.tables else 1, self._parts(table_places(meta, table, SequenceRange(0, MAX_ID)))
        )

    def _parts(self, places: EntryPlaces) -> Iterator[list[LogEntry]]:
        reader, at = PayloadReader(self.log, self.topics), 0
        while at < len(places):
            part = [placed.entry for placed in reader.read(places.part(at, min(len(places), at + _AT_ONCE)))]
            at += len(part)
            yield part

    def steady(self, look: Callable[[], T]) -> T:
        """What `look` finds; taken again where it fails while an owner writes, snapshots or cleans."""
        for left in reversed(range(_LOOKS)):
            before = self._bounds()
            try:
                return look()
            except (OffsetGone, Damaged):
                if not left or before == self._bounds():
                    raise
        raise AssertionError("the last look returns or raises")

    def _bounds(self) -> tuple[Bounds | None, Bounds]:
        try:
            meta = self.log.bounds(self.topics.meta, 0)
        except UnknownTopic:  # it was lost: recovery says what that means, or does without it
            meta = None
        return meta, self.log.bounds(self.topics.data, 0)


def table_state(number: int, table: TableMeta) -> TableState:
    """What a table's state says."""
    return TableState(
        table=number,
        last=table.next - 1,
        flushed=table.marked - 1,
        live=table.live,
        offset=table.safe_offset,
        watermark=table.watermark,
    )


def table_states(meta: RegionMeta) -> list[TableState]:
    """Every table, by its number."""
    return [table_state(number, table) for number, table in sorted(meta.tables.items())]


class StateCounts:
    """What the statistics need of a state."""

    def __init__(self, meta: RegionMeta) -> None:
        self.tables, self.live, self.safe = len(meta.tables), meta.live, meta.safe_offset
        self.pins: Pins = pins_of(meta)


def statistics(
    view: RegionView, counts: StateCounts, *, recovered: Recovered, snapshots: list[SnapshotState], owner: str, open: bool = False
) -> RegionStatistics:
    """What a region holds. `recovered`: now, or when this process opened it (`open`). Blocking."""
    log, topics = view.log, view.topics
    topic, bounds, mean = view.topic(), log.bounds(topics.data, 0), mean_sizes(log, topics.data)
    pinned_from, pinned_to = counts.pins.pinned
    return RegionStatistics(
        namespace=topics.namespace,
        region=topics.region,
        start=bounds.start,
        end=bounds.end,
        watermark=counts.pins.watermark,
        safe=counts.safe,
        tables=counts.tables,
        live_entries=counts.live,
        live_bytes=round(mean.payload * counts.live),
        pinned_entries=pinned_to - pinned_from,
        pinned_bytes=round(mean.record * (pinned_to - pinned_from)),
        bytes=content_of(log, topics.data)[0].bytes,
        snapshots=snapshots,
        problems=recovered.problems,
        open=open,
        owner=owner,
        settings=shown_settings(topic.settings),
    )


def snapshot_states(stored: Iterable[StoredSnapshot]) -> list[SnapshotState]:
    """The stored snapshots, the oldest first."""
    return [SnapshotState(first=snapshot.first, last=snapshot.last, watermark=snapshot.watermark) for snapshot in stored]


def region_summaries(log: Log, namespace: str | None) -> list[RegionSummary]:
    """Every region, or those of a namespace, with the bounds of their logs. One that is damaged hides no other. Blocking."""
    return [
        _summary(log, topics) if isinstance(topic, Topic) else _broken(topics, topic) for topics, topic in found_regions(log, namespace)
    ]


def _summary(log: Log, topics: RegionTopics) -> RegionSummary:
    try:
        return region_summary(log, topics)
    except Damaged as error:
        return _broken(topics, error)


def _broken(topics: RegionTopics, error: Damaged) -> RegionSummary:
    return RegionSummary(namespace=topics.namespace, region=topics.region, start=0, end=0, problem=str(error))


def region_summary(log: Log, topics: RegionTopics) -> RegionSummary:
    """A region with the bounds of its log. Blocking. Errors: `RegionNotFound`."""
    topic, bounds = known_region(log, topics), log.bounds(topics.data, 0)
    return RegionSummary(
        namespace=topics.namespace, region=topics.region, start=bounds.start, end=bounds.end, settings=shown_settings(topic.settings)
    )


def recovery_state(recovered: Recovered, counts: StateCounts, *, dry_run: bool = False) -> RegionRecovered:
    """What was recovered, and from what."""
    return RegionRecovered(
        tables=counts.tables,
        live=counts.live,
        records=recovered.records,
        watermark=counts.pins.watermark,
        problems=recovered.problems,
        lost=recovered.accepted,
        dry_run=dry_run,
    )


def show_entry(entry: LogEntry, decode: Decoder) -> ShownEntry:
    """A payload as JSON."""
    return ShownEntry(table=entry.table, sequence=entry.sequence, offset=entry.offset, payload=show_bytes(entry.payload, decode))
