"""Regions as tables of Spark: `wal:NAMESPACE/REGION`, the live payloads; with the option `view=log`, every record of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from headwater.core.errors import BadBounds, BadInput, Conflict, HeadwaterError
from headwater.log import Log
from headwater.log.epochs import marks
from headwater.log.layout import decode_headers
from headwater.spark.tables import PlannedTable, SparkTable, Table
from headwater.wal.bounds import Included, SequenceRange, sequence_range
from headwater.wal.entries import EntryPlaces, PayloadReader, PlacedEntry, region_places
from headwater.wal.layout import MAX_ID, MalformedRecord, RecordKind, decode_key, decode_payloads
from headwater.wal.region_list import known_region
from headwater.wal.region_topics import RegionTopics, checked_id, region_named
from headwater.wal.view import RegionView

OPTIONS = {
    "view": "live (the default): payloads that are not flushed; log: every record",
    "table": "only this table, or these with commas between",
    "fromSequence": "the first sequence",
    "toSequence": "the last sequence",
}
TABLE = pa.decimal128(20, 0)  # tables have numbers up to 2^64-1, and Spark has no unsigned ones
_TIME = pa.timestamp("us", "UTC")
_HIGHEST = (1 << 63) - 1  # the highest sequence that the column holds
_MOST = 4096  # payloads that are read at once
_BYTES = 16 << 20  # of payloads that are read at once


class RowChoice(msgspec.Struct, frozen=True):
    """Which payloads the options leave. `tables`: None for all."""

    tables: frozenset[int] | None
    sequences: SequenceRange

    def has(self, table: int) -> bool:
        return self.tables is None or table in self.tables


class RegionPart(msgspec.Struct, frozen=True):
    """What one task reads. `generation`: of the topic in which the places were found."""

    generation: str
    places: EntryPlaces


class LiveEntries(PlannedTable):
    """The payloads of a region that are not flushed when the read is planned, in the order of the log."""

    schema = pa.schema(
        [
            pa.field("table", TABLE, nullable=False),
            pa.field("sequence", pa.int64(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", _TIME, nullable=False),
            pa.field("payload", pa.binary(), nullable=False),
        ]
    )
    options = OPTIONS
    unstreamed = "what is live now is not what was live before"
    instead = 'Use read instead of readStream, or stream the records: .option("view", "log").'

    def __init__(self, topics: RegionTopics, choice: RowChoice) -> None:
        self._topics, self._choice = topics, choice

    def check(self, log: Log) -> None:
        known_region(log, self._topics)

    def plan(self, log: Log, split: int) -> list[RegionPart]:
        view = RegionView(log, self._topics)
        generation = view.topic().generation
        places = _chosen(region_places(view.recovered().meta, self._choice.has), self._choice.sequences)
        return [RegionPart(generation, places.part(begin, begin + split)) for begin in range(0, len(places), split)]

    def rows(self, log: Log, part: RegionPart, wanted: Sequence[str]) -> Iterator[Mapping[str, pa.Array]]:
        if known_region(log, self._topics).generation != part.generation:
            raise Conflict(f"Region {self._topics} was deleted and created again while it was read.", hint="Load it again.")
        reader, at = PayloadReader(log, self._topics, most=_BYTES), 0
        while at < len(part.places):
            entries = reader.read(part.places.part(at, at + _MOST))
            at += len(entries)
            yield _columns(entries)


class RegionRecords(SparkTable):
    """Every record of a region's log that is still there: a row for each payload, for each mark, for each drop, and for each claim."""

    schema = pa.schema(
        [
            pa.field("kind", pa.string(), nullable=False),
            pa.field("table", TABLE),
            pa.field("sequence", pa.int64()),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", _TIME, nullable=False),
            pa.field("payload", pa.binary()),
            pa.field("epoch", pa.decimal128(20, 0)),
        ]
    )
    options = OPTIONS

    def __init__(self, topics: RegionTopics, choice: RowChoice) -> None:
        self._topics, self._choice, self.topic = topics, choice, topics.data

    def check(self, log: Log) -> None:
        known_region(log, self._topics)

    def rows(self, partition: int, batch: pa.RecordBatch, wanted: Sequence[str]) -> Mapping[str, pa.Array]:
        rows: list[tuple[Any, ...]] = []  # in the order of the schema
        columns = (batch.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value", "headers"))
        for offset, timestamp, key, value, headers in zip(*columns, strict=True):
            epoch = None if headers is None else next((mark for mark in marks(decode_headers(headers)) if mark is not None), None)
            for kind, table, sequence, payload in _said(self._topics.region, key, value):
                if self._has(table, sequence):
                    rows.append((kind, table, sequence, offset, timestamp, payload, epoch))
        cells = zip(*rows, strict=True) if rows else [()] * len(self.schema)
        return {field.name: _column(field.type, column) for field, column in zip(self.schema, cells, strict=True) if field.name in wanted}

    def _has(self, table: int | None, sequence: int | None) -> bool:
        if table is None or sequence is None:  # no record of a table
            return self._choice.tables is None and self._choice.sequences == SequenceRange(0, MAX_ID)
        return self._choice.has(table) and self._choice.sequences.first <= sequence <= self._choice.sequences.last


def region_table(name: str, options: Mapping[str, str]) -> Table:
    """The table of `wal:name`. Errors: `BadInput`, `BadBounds`."""
    by_name = {option.lower(): value for option, value in options.items()}
    topics, view = region_named(name), by_name.get("view", "live")
    bounds = [None if (text := by_name.get(option)) is None else _number(text, option) for option in ("fromsequence", "tosequence")]
    choice = RowChoice(
        None if "table" not in by_name else frozenset(checked_id(_number(part, "table"), "table") for part in by_name["table"].split(",")),
        sequence_range("min" if bounds[0] is None else Included(bounds[0]), "max" if bounds[1] is None else Included(bounds[1])),
    )
    if view not in ("live", "log"):
        raise BadInput(f"A region has no view {view!r}.", hint="Leave the option out for what is live, or give view=log for every record.")
    return LiveEntries(topics, choice) if view == "live" else RegionRecords(topics, choice)


def _number(text: str, option: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit():
        error: type[HeadwaterError] = BadInput if option == "table" else BadBounds
        raise error(f"{text!r} does not fit the option {option}.", hint=f"Give a whole number from 0 to {MAX_ID}.")
    return int(text)


def _chosen(places: EntryPlaces, wanted: SequenceRange) -> EntryPlaces:
    if wanted == SequenceRange(0, MAX_ID):
        return places
    kept = (places.sequences >= np.uint64(wanted.first)) & (places.sequences <= np.uint64(wanted.last))
    return EntryPlaces(places.tables[kept], places.sequences[kept], places.offsets[kept], places.generation)


def _columns(entries: Sequence[PlacedEntry]) -> Mapping[str, pa.Array]:
    return {
        "table": _column(TABLE, [placed.entry.table for placed in entries]),
        "sequence": pa.array([placed.entry.sequence for placed in entries], pa.int64()),
        "offset": pa.array([placed.entry.offset for placed in entries], pa.int64()),
        "timestamp": _column(_TIME, [placed.timestamp for placed in entries]),
        "payload": pa.array([placed.entry.payload for placed in entries], pa.binary()),
    }


def _column(kind: pa.DataType, cells: Sequence[Any]) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array(cells, pa.uint64()).cast(kind)
    return pa.array(cells, pa.timestamp("ms", "UTC") if pa.types.is_timestamp(kind) else kind)


def _said(region: int, key: bytes | None, value: bytes | None) -> Iterator[tuple[str, int | None, int | None, bytes | None]]:
    """Kind, table, sequence and payload of each row that a record gives. The sequence of a mark and of a drop is the last one.

    What no owner of the region has written is one row of the kind `other`: anybody may write to a topic of Kafka.
    """
    if key is None and value is None:
        yield "claim", None, None, None
        return
    try:
        kind, of, table, first = decode_key(key)
        payloads = decode_payloads(value)
        if of != region or first + len(payloads) > _HIGHEST:
            raise MalformedRecord("it is of another region, or has sequences that nobody has come to")
    except MalformedRecord:
        yield "other", None, None, None
        return
    if kind in (RecordKind.ENTRY, RecordKind.MOVE):
        for sequence, payload in enumerate(payloads, first):
            yield kind.name.lower(), table, sequence, payload
    else:
        yield kind.name.lower(), table, first - 1, None
