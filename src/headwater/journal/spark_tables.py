"""Journals as tables of Spark: `journal:TOPIC`, the events that a read gives; `view=heads`, the heads; `view=actions`, the records.

Events and heads are what the store has copied, joined with the fold of the log behind its pointer: one task for each partition. Actions
are the records of the log as they are.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from headwater.core.config import load
from headwater.core.errors import BadBounds, BadInput, Conflict, LogGap, UnreadableRecord
from headwater.journal.action import Append, Delete, Mark
from headwater.journal.change import EventRow, JournalChange
from headwater.journal.claims import has_claims
from headwater.journal.control import ControlLog
from headwater.journal.event import KIND_NAMES, check_range, check_seq_nr
from headwater.journal.head import Head, applied
from headwater.journal.key_address import key_address_of
from headwater.journal.merge import DuplicateCount, distinct
from headwater.journal.metadata import EMPTY_COLUMN, read_metadata_column
from headwater.journal.names import check_id, key_of, topic_of
from headwater.journal.range_fold import fold_batches
from headwater.journal.settings import JOURNAL_SECTION
from headwater.journal.spark_part import EventChoice, EventOpener, PartitionPart
from headwater.journal.store import PartitionView
from headwater.journal.store_address import open_store, store_address_of
from headwater.journal.topics import JournalTopics
from headwater.journal.wire import read_record
from headwater.log import Log
from headwater.log.layout import decode_headers
from headwater.log.partitioner import partition_for
from headwater.log.record import Record
from headwater.spark.tables import PlannedTable, SparkTable, Table

OPTIONS = {
    "view": "events (the default); heads: a row for each journal; actions: a row for each record of the log",
    "id": "only this journal",
    "fromSeqNr": "the number of the first event; for events alone",
    "toSeqNr": "the number of the last event; for events alone",
    "undecryptable": "fail (the default), or null: what no key opens has no payload, and true in the column encrypted; for events alone",
}
VIEWS = ("events", "heads", "actions")
_TIME = pa.timestamp("us", "UTC")
_HEADERS = pa.map_(pa.string(), pa.string())
_MOST = 4096  # rows of one batch


class _JournalTable(PlannedTable):
    """A table over the store's copy and the log behind it."""

    options = OPTIONS
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
            )
            for number in numbers
        ]

    def rows(self, log: Log, part: PartitionPart, wanted: Sequence[str]) -> Iterator[Mapping[str, pa.Array]]:
        if log.topic(part.topic).generation != part.generation:
            raise Conflict(f"Topic {part.topic} was deleted and created again while it was read.", hint="Load it again.")
        with open_store(part.store) as store, EventOpener(log, part) as opener:
            copy = store.partition(part.topic, part.partition, part.generation, create=False)
            with nullcontext() if copy is None else copy.view() as view:
                made: list[dict[str, Any]] = []
                for cells in self._cells(part, view, _tail(log, part, view), opener):
                    made.append(cells)
                    if len(made) == _MOST:
                        yield _columns(self.schema, made, wanted)
                        made = []
                yield _columns(self.schema, made, wanted)

    def _cells(
        self, part: PartitionPart, view: PartitionView | None, tail: dict[str, JournalChange], opener: EventOpener
    ) -> Iterator[dict[str, Any]]:
        """The rows of every journal that there is, with their heads."""
        for id, stored, change in _journals(view, tail, self._choice.id):
            if change is None:
                head = stored
            else:
                size = part.store.segment_size
                head = applied(change.fold, stored, partition=part.partition, generation=part.generation, segment_size=size)
            if head is not None:
                kept = None if change is not None and change.fold.purged >= 0 else stored
                yield from self._of_journal(part, view, id, head, kept, change, opener)

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
            pa.field("timestamp", _TIME, nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("origin", pa.string()),
            pa.field("version", pa.string()),
            pa.field("metadata", pa.string()),
            pa.field("header_metadata", pa.string()),
            pa.field("headers", _HEADERS, nullable=False),
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
        start, stop = max(self._choice.start, head.deleted + 1), self._choice.stop
        if stop is not None and start > stop:
            return
        pages = () if stored is None or view is None else view.rows(id, stored, start, stop)
        copied = (row for page in pages for row in page)
        behind = [] if change is None else [row for row in change.rows if start <= row.seq_nr and (stop is None or row.seq_nr <= stop)]
        behind.sort(key=_order)
        for row in distinct(heapq.merge(copied, behind, key=_order), part.duplicates, DuplicateCount(), id):
            opened = opener.opened(id, row, lenient=self._choice.lenient)
            yield {**_event_cells(id, opened or msgspec.structs.replace(row, payload=None)), "encrypted": opened is None}


class JournalHeads(_JournalTable):
    """The heads of the journals: a row for each."""

    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("seq_nr", pa.int64(), nullable=False),
            pa.field("delete_to", pa.int64(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("created", _TIME, nullable=False),
            pa.field("updated", _TIME, nullable=False),
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
        yield {
            **msgspec.structs.asdict(head),
            "id": id,
            "seq_nr": head.last,
            "delete_to": head.deleted,
            "record_id": None if head.record_id is None else str(head.record_id),
        }


class JournalActions(SparkTable):
    """Every record of the log: Appends, Deletes, Purges and Marks, and those that cannot be decoded."""

    schema = pa.schema(
        [
            pa.field("id", pa.string()),
            pa.field("action", pa.string(), nullable=False),
            pa.field("first", pa.int64()),
            pa.field("last", pa.int64()),
            pa.field("to", pa.int64()),
            pa.field("mark", pa.string()),
            pa.field("timestamp", _TIME, nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("origin", pa.string()),
            pa.field("version", pa.string()),
            pa.field("header_metadata", pa.string()),
            pa.field("headers", _HEADERS, nullable=False),
            pa.field("problem", pa.string(), nullable=False),
        ]
    )
    options = OPTIONS

    def __init__(self, name: str, choice: EventChoice) -> None:
        self._name, self._id = name, choice.id
        self.topic = topic_of(name, JOURNAL_SECTION.of(load().settings).prefixes)

    def check(self, log: Log) -> None:
        JournalTopics(log, JOURNAL_SECTION.of(load().settings)).find(self._name)

    def rows(self, partition: int, batch: pa.RecordBatch, wanted: Sequence[str]) -> Mapping[str, pa.Array]:
        made: list[dict[str, Any]] = []
        columns = (batch.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value", "headers"))
        for offset, timestamp, key, value, block in zip(*columns, strict=True):
            headers = () if block is None else tuple(decode_headers(block))
            if self._id is None or key == self._id.encode():
                cells = _action_cells(Record(key, value, headers, timestamp, offset=offset))
                if cells is not None:
                    made.append({**cells, "partition": partition, "offset": offset, "timestamp": timestamp})
        return _columns(self.schema, made, wanted)


def journal_table(name: str, options: Mapping[str, str]) -> Table:
    """The table of `journal:name`. Errors: `BadInput`, `BadBounds`."""
    given = {option.lower(): value for option, value in options.items()}
    view = given.get("view", "events")
    if view not in VIEWS:
        raise BadInput(f"Journals have no view {view!r:.40}.", hint=f"It is one of {', '.join(VIEWS)}.")
    numbers = [None if (text := given.get(option.lower())) is None else _number(text, option) for option in ("fromSeqNr", "toSeqNr")]
    if view != "events" and numbers != [None, None]:
        raise BadInput(f"The view {view} has no events to choose from.", hint="Leave fromSeqNr and toSeqNr out, or read the view events.")
    lenient = given.get("undecryptable", "fail")
    if lenient not in ("fail", "null") or (view != "events" and "undecryptable" in given):
        raise BadInput(f"undecryptable={lenient!r:.40} is not possible for the view {view}.", hint="It is fail or null, for events alone.")
    start, stop = numbers[0] or 1, numbers[1]
    check_range(start, stop)
    topic_of(name, JOURNAL_SECTION.of(load().settings).prefixes)
    choice = EventChoice(None if "id" not in given else check_id(given["id"]), start, stop, lenient == "null")
    made: dict[str, type[JournalEvents | JournalHeads | JournalActions]] = {
        "events": JournalEvents,
        "heads": JournalHeads,
        "actions": JournalActions,
    }
    return made[view](name, choice)


def _number(text: str, option: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit():
        raise BadBounds(f"{text!r:.40} does not fit the option {option}.", hint="Give the number of an event, 1 or more.")
    return check_seq_nr(int(text), f"number for {option}")


def _tail(log: Log, part: PartitionPart, view: PartitionView | None) -> dict[str, JournalChange]:
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
    )
    if folded.poison is not None:
        raise folded.poison
    return {change.id: change for change in folded.change.journals}


def _journals(
    view: PartitionView | None, tail: dict[str, JournalChange], wanted: str | None
) -> Iterator[tuple[str, Head | None, JournalChange | None]]:
    """Every journal of the store, and those that the log alone knows."""
    if wanted is not None:
        yield wanted, None if view is None else view.head(wanted), tail.get(wanted)
        return
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


def _event_cells(id: str, row: EventRow) -> dict[str, Any]:
    metadata = header = None
    if row.metadata != EMPTY_COLUMN:
        both = read_metadata_column(row.metadata)
        metadata = None if both.payload.data is None else both.payload.data.decode()
        header = None if both.header is None else both.header.decode()
    return {
        "id": id,
        "seq_nr": row.seq_nr,
        "payload": None if row.payload is None else row.payload.data,
        "payload_type": None if row.payload is None else KIND_NAMES[row.payload.kind],
        "tags": row.tags,
        "timestamp": row.timestamp,
        "partition": row.partition,
        "offset": row.offset,
        "origin": row.origin,
        "version": row.version,
        "metadata": metadata,
        "header_metadata": header,
        "headers": row.headers,
    }


def _action_cells(record: Record) -> dict[str, Any] | None:
    """A record by the names of the columns; None for one that is no action, such as a claim on Kafka."""
    cells: dict[str, Any] = dict.fromkeys(JournalActions.schema.names)
    cells |= {"headers": (), "problem": ""}
    try:
        found = read_record(record)
    except UnreadableRecord as error:
        id = None if record.key is None else record.key.decode(errors="replace")
        return {**cells, "id": id, "action": "unreadable", "problem": error.message}
    if found is None:
        return None
    action = found.action
    cells |= {"id": found.id, "action": type(action).__name__.lower(), "headers": found.headers}
    cells |= {"origin": action.origin, "version": action.version}
    if isinstance(action, Append):
        cells |= {"first": action.first, "last": action.last}
        cells["header_metadata"] = None if action.metadata is None else action.metadata.decode()
    elif isinstance(action, Delete):
        cells["to"] = action.to
    elif isinstance(action, Mark):
        cells["mark"] = action.id
    return cells


def _columns(schema: pa.Schema, rows: list[dict[str, Any]], wanted: Sequence[str]) -> Mapping[str, pa.Array]:
    return {name: _column(schema.field(name), [row[name] for row in rows]) for name in wanted}


def _column(field: pa.Field, cells: list[Any]) -> pa.Array:
    return pa.array(cells, pa.timestamp("ms", "UTC") if field.type == _TIME else field.type)
