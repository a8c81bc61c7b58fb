"""Journals as tables of Spark: `journal:TOPIC`, the events that a read gives; `view=heads`, the heads; `view=actions`, the records.

Events and heads are what the store has copied, joined with the fold of the log behind its pointer: one task for each partition. Actions
are the records of the log as they are.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from headwater.core.config import load
from headwater.core.errors import BadBounds, BadInput, Conflict, LogGap
from headwater.journal.change import EventRow, JournalChange
from headwater.journal.claims import has_claims
from headwater.journal.control import ControlLog
from headwater.journal.counts import partition_counts
from headwater.journal.discovery import JournalTopic
from headwater.journal.event import check_range, check_seq_nr
from headwater.journal.grown import GrownJournal, GrownRead, journals_of
from headwater.journal.head import Head, applied, read_range, with_rows_up_to
from headwater.journal.key_address import key_address_of
from headwater.journal.merge import DuplicateCount, distinct
from headwater.journal.names import check_id, key_of, topic_of
from headwater.journal.partition import JournalPartition
from headwater.journal.places import places_of
from headwater.journal.range_fold import fold_batches
from headwater.journal.read import JournalRead
from headwater.journal.settings import JOURNAL_SECTION, JournalSettings
from headwater.journal.spark_actions import JournalActions
from headwater.journal.spark_cells import HEADERS, OPTIONS, TIME, columns, event_cells, head_cells
from headwater.journal.spark_part import EventChoice, EventOpener, PartitionPart
from headwater.journal.store import JournalStore, PartitionView
from headwater.journal.store_address import open_store, store_address_of
from headwater.journal.topics import JournalTopics
from headwater.log import Log
from headwater.log.partitioner import partition_for
from headwater.spark.tables import PlannedTable, Table

VIEWS = ("events", "heads", "actions")
_MOST = 4096  # rows of one batch


class _JournalTable(PlannedTable):
    """A table over the store's copy and the log behind it."""

    options = OPTIONS
    bodies = True
    """Whether events are needed, beside heads."""
    unstreamed = "it is what journals hold now"
    instead = 'Use read instead of readStream, or stream the records: .option("view", "actions").'

    def __init__(self, name: str, choice: EventChoice) -> None:
        self._name, self._choice = name, choice

    def check(self, log: Log) -> None:
        JournalTopics(log, JOURNAL_SECTION.of(load().settings)).find(self._name)

    def plan(self, log: Log, split: int) -> list[PartitionPart]:
        settings = load().settings
        journal = JOURNAL_SECTION.of(settings)
        topic = JournalTopics(log, journal).find(self._name)
        control = ControlLog(log, topic.name)
        control.look()
        data = Path(log.address.path or settings.data)
        store, keys = store_address_of(settings, data), key_address_of(settings, data)
        id = self._choice.id
        numbers = range(topic.partitions) if id is None else [partition_for(key_of(id), topic.partitions)]
        counts: tuple[int, ...] = ()
        if log.engine == "kafka":
            with open_store(store) as opened:
                counts = partition_counts(opened, JournalTopic(topic.name, topic.partitions, topic.generation))
        return [
            PartitionPart(
                topic.name,
                number,
                topic.generation,
                log.bounds(topic.name, number).end,
                store,
                keys,
                control.partition(topic.generation, number).quarantined,
                journal.duplicates,
                counts,
            )
            for number in numbers
        ]

    def rows(self, log: Log, part: PartitionPart, wanted: Sequence[str]) -> Iterator[Mapping[str, pa.Array]]:
        if log.topic(part.topic).generation != part.generation:
            raise Conflict(f"Topic {part.topic} was deleted and created again while it was read.", hint="Load it again.")
        with open_store(part.store) as store, EventOpener(log, part) as opener:
            cell_rows: list[dict[str, Any]] = []
            for cells in self._all(log, store, part, opener) if self._choice.id is None else self._one(log, store, part, opener):
                cell_rows.append(cells)
                if len(cell_rows) == _MOST:
                    yield columns(self.schema, cell_rows, wanted)
                    cell_rows = []
            yield columns(self.schema, cell_rows, wanted)

    def _one(self, log: Log, store: JournalStore, part: PartitionPart, opener: EventOpener) -> Iterator[dict[str, Any]]:
        """The rows of the journal that is chosen, as a read finds them: in each of its places, and by its own records alone."""
        id = self._choice.id
        assert id is not None
        partition = _opened(log, store, part)
        grown = journals_of(id, part.counts, partition) if len(part.counts) > 1 else None
        yield from self._of_chosen(id, partition(part.partition) if grown is None else grown, part.end, opener)

    @abstractmethod
    def _of_chosen(self, id: str, journal: JournalPartition | GrownJournal, end: int, opener: EventOpener) -> Iterator[dict[str, Any]]:
        """The rows of the journal that is chosen, below an offset of its newest place."""

    def _all(self, log: Log, store: JournalStore, part: PartitionPart, opener: EventOpener) -> Iterator[dict[str, Any]]:
        copy = store.partition(part.topic, part.partition, part.generation, create=False)
        with nullcontext() if copy is None else copy.view() as view:
            yield from self._cells(part, view, _tail(log, part, view, bodies=self.bodies), opener, _opened(log, store, part))

    def _cells(
        self,
        part: PartitionPart,
        view: PartitionView | None,
        tail: dict[str, JournalChange],
        opener: EventOpener,
        partition: Callable[[int], JournalPartition],
    ) -> Iterator[dict[str, Any]]:
        """The rows of every journal that there is, with their heads. One with several places is told whole, by the first of them that has
        some of it."""
        for id, stored, change in _journals(view, tail):
            if change is None:
                head = stored
            else:
                size = part.store.segment_size
                head = applied(change.fold, stored, partition=part.partition, generation=part.generation, segment_size=size)
            if head is None:
                continue
            places = places_of(key_of(id), part.counts)
            if len(places) > 1 and part.partition in places:
                older = [partition(number) for number in places[: places.index(part.partition)]]
                if all(older_partition.joined(id, older_partition.end()).head is None for older_partition in older):
                    newest = partition(places[-1])
                    end = part.end if newest.number == part.partition else newest.end()
                    yield from self._of_chosen(id, GrownJournal([partition(number) for number in places], id), end, opener)
            else:
                stored_head = None if change is not None and change.fold.purged >= 0 else stored
                yield from self._of_journal(part, view, id, head, stored_head, change, opener)

    @abstractmethod
    def _of_journal(
        self,
        part: PartitionPart,
        view: PartitionView | None,
        id: str,
        head: Head,
        stored: Head | None,
        change: JournalChange | None,
        opener: EventOpener,
    ) -> Iterator[dict[str, Any]]:
        """The rows of one journal. `stored`: its head in the store, of the same life. `change`: what the log says behind the store."""


class JournalEvents(_JournalTable):
    """The events of every journal that are not deleted, in the order of their numbers within a journal."""

    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("seq_nr", pa.int64(), nullable=False),
            pa.field("payload", pa.binary()),
            pa.field("payload_type", pa.string()),
            pa.field("tags", pa.list_(pa.string()), nullable=False),
            pa.field("timestamp", TIME, nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("origin", pa.string()),
            pa.field("version", pa.string()),
            pa.field("metadata", pa.string()),
            pa.field("header_metadata", pa.string()),
            pa.field("headers", HEADERS, nullable=False),
            pa.field("encrypted", pa.bool_(), nullable=False),
        ]
    )

    def _of_journal(
        self,
        part: PartitionPart,
        view: PartitionView | None,
        id: str,
        head: Head,
        stored: Head | None,
        change: JournalChange | None,
        opener: EventOpener,
    ) -> Iterator[dict[str, Any]]:
        start, stop = read_range(head, self._choice.start, self._choice.stop)
        if start > stop:
            return
        pages = () if stored is None or view is None else view.rows(id, with_rows_up_to(stored, head), start, stop)
        copied = (row for page in pages for row in page)
        behind = [] if change is None else [row for row in change.rows if start <= row.seq_nr <= stop]
        behind.sort(key=_order)
        for row in distinct(heapq.merge(copied, behind, key=_order), part.duplicates, DuplicateCount(), id):
            yield self._shown(id, row, opener)

    def _of_chosen(self, id: str, journal: JournalPartition | GrownJournal, end: int, opener: EventOpener) -> Iterator[dict[str, Any]]:
        start, stop = self._choice.start, self._choice.stop
        if isinstance(journal, GrownJournal):
            read: JournalRead | GrownRead = journal.read(start=start, stop=stop, end=end)
        else:
            read = JournalRead(journal, id, start=start, stop=stop, end=end)
        while rows := read.page():
            yield from (self._shown(id, row, opener) for row in rows)

    def _shown(self, id: str, row: EventRow, opener: EventOpener) -> dict[str, Any]:
        opened = opener.opened(id, row, lenient=self._choice.lenient)
        return {**event_cells(id, opened or msgspec.structs.replace(row, payload=None)), "encrypted": opened is None}


class JournalHeads(_JournalTable):
    """The heads of the journals: a row for each."""

    bodies = False
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("seq_nr", pa.int64(), nullable=False),
            pa.field("delete_to", pa.int64(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("created", TIME, nullable=False),
            pa.field("updated", TIME, nullable=False),
            pa.field("expire_after", pa.int64()),
            pa.field("expire_on", pa.date32()),
            pa.field("record_id", pa.string()),
            pa.field("origin", pa.string()),
        ]
    )

    def _of_journal(
        self,
        part: PartitionPart,
        view: PartitionView | None,
        id: str,
        head: Head,
        stored: Head | None,
        change: JournalChange | None,
        opener: EventOpener,
    ) -> Iterator[dict[str, Any]]:
        yield head_cells(id, head)

    def _of_chosen(self, id: str, journal: JournalPartition | GrownJournal, end: int, opener: EventOpener) -> Iterator[dict[str, Any]]:
        head = journal.head(end, full=True) if isinstance(journal, GrownJournal) else journal.full_head(id, end)
        if head is not None:
            yield head_cells(id, head)


def journal_table(name: str, options: Mapping[str, str]) -> Table:
    """The table of `journal:name`. Errors: `BadInput`, `BadBounds`."""
    lowercase_options = {option.lower(): value for option, value in options.items()}
    view = lowercase_options.get("view", "events")
    if view not in VIEWS:
        raise BadInput(f"Journals have no view {view!r:.40}.", hint=f"It is one of {', '.join(VIEWS)}.")
    numbers = [
        None if (text := lowercase_options.get(option.lower())) is None else _number(text, option) for option in ("fromSeqNr", "toSeqNr")
    ]
    if view != "events" and numbers != [None, None]:
        raise BadInput(f"The view {view} has no events to choose from.", hint="Leave fromSeqNr and toSeqNr out, or read the view events.")
    lenient = lowercase_options.get("undecryptable", "fail")
    if lenient not in ("fail", "null") or (view != "events" and "undecryptable" in lowercase_options):
        raise BadInput(f"undecryptable={lenient!r:.40} is not possible for the view {view}.", hint="It is fail or null, for events alone.")
    start, stop = numbers[0] or 1, numbers[1]
    check_range(start, stop)
    topic_of(name, JOURNAL_SECTION.of(load().settings).prefixes)
    choice = EventChoice(None if "id" not in lowercase_options else check_id(lowercase_options["id"]), start, stop, lenient == "null")
    table_types: dict[str, type[JournalEvents | JournalHeads | JournalActions]] = {
        "events": JournalEvents,
        "heads": JournalHeads,
        "actions": JournalActions,
    }
    return table_types[view](name, choice)


def _opened(log: Log, store: JournalStore, part: PartitionPart) -> Callable[[int], JournalPartition]:
    """The partitions of a part's topic, each opened once."""
    settings = JournalSettings(segment_size=part.store.segment_size, duplicates=part.duplicates)
    topic, opened = log.topic(part.topic), dict[int, JournalPartition]()

    def partition(number: int) -> JournalPartition:
        if number not in opened:
            opened[number] = JournalPartition(log, lambda: store, topic, number, settings=settings)
        return opened[number]

    return partition


def _number(text: str, option: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit():
        raise BadBounds(f"{text!r:.40} does not fit the option {option}.", hint="Give the number of an event, 1 or more.")
    return check_seq_nr(int(text), f"number for {option}")


def _tail(log: Log, part: PartitionPart, view: PartitionView | None, *, bodies: bool) -> dict[str, JournalChange]:
    """What the log says behind the store's copy. Errors: `LogGap`; `UnreadableRecord` for a record that is not quarantined."""
    start, epoch = (0, 0) if view is None else (view.pointer.offset + 1, view.pointer.epoch)
    end = part.end if view is None else max(part.end, view.pointer.begun)
    if start >= end:
        return {}
    begin = log.bounds(part.topic, part.partition).start
    if begin > start:
        raise LogGap(
            f"{part.topic}/{part.partition} begins at offset {begin}, and its copy ends before {start}: records between are gone.",
            hint="Read it where its store is configured, or once the replicator has copied it.",
        )
    batches = log.scan(part.topic, part.partition, start, end)
    folded = fold_batches(
        topic=part.topic,
        partition=part.partition,
        generation=part.generation,
        start=start,
        end=end,
        batches=batches,
        epoch=epoch,
        skip=part.skip,
        claimed=has_claims(log, part.topic),
        bodies=bodies,
    )
    if folded.poison is not None:
        raise folded.poison
    return {change.id: change for change in folded.change.journals}


def _journals(view: PartitionView | None, tail: dict[str, JournalChange]) -> Iterator[tuple[str, Head | None, JournalChange | None]]:
    """Every journal of the store, and those that the log alone knows."""
    left = dict(tail)
    after: str | None = None
    while view is not None and (page := view.heads(after)):
        for id, head in page:
            yield id, head, left.pop(id, None)
        after = page[-1][0]
    for id, change in left.items():
        yield id, None, change


def _order(row: EventRow) -> tuple[int, int, int]:
    return row.seq_nr, row.partition, row.offset
