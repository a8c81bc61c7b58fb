"""`headwater log show` and `headwater log tail`: records for people and programs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwater.cli.log_opening import only_partition, opened
from headwater.cli.options import ConfigFile, DataDir, Json, PartitionNumber, TopicName
from headwater.cli.output import Column, count, print_json_line, print_table, visible
from headwater.cli.stop import StopSignal
from headwater.core.errors import BadBounds, BadInput, OffsetGone
from headwater.log import Log
from headwater.log.json_form import show_record
from headwater.log.record import Record
from headwater.wire.ranges import read_range
from headwater.wire.times import show_time

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING_FOUND = 10
MOST_TAILED = 64  # partitions followed at once: each keeps files open
_TURN = 0.1  # seconds after which a tail without records looks whether it is to stop
Decode = Literal["text", "json", "hex"]
Decoder = Annotated[Decode, typer.Option("--decode", help="How keys and values are shown. Bytes that are no text appear as base64.")]
COLUMNS = (Column("partition", True), Column("offset", True), Column("time"), Column("key"), Column("value"), Column("more"))
Found = tuple[int, Record]  # partition, record


def show(
    topic: TopicName,
    offsets: Annotated[
        str | None,
        typer.Argument(
            metavar="OFFSETS", help="One (17), a range with its last one included (17..20), or all from one on (17..).", show_default=False
        ),
    ] = None,
    partition: PartitionNumber = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Only records with this key.")] = None,
    decode: Decoder = "text",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The most records to show.")] = 100,
    fail_empty: Annotated[bool, typer.Option("--fail-empty", help="End with exit code 10 when nothing was found.")] = False,
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Print records. With `--json` one object a line, as they are read."""
    first, last = read_range(offsets) if offsets else (None, None)
    shown, more = 0, False
    rows: list[tuple[str, ...]] = []
    try:
        with opened(data, config) as (log, _):
            for number, record in select(log, topic, partition, first, last, key):
                if shown == limit:
                    more = True
                    break
                shown += 1
                if json:
                    print_json_line({"partition": number, **show_record(record, decode)})
                else:
                    rows.append(row_of(number, record, decode))
    finally:  # what lies before damage is shown, too
        if rows:
            print_table(COLUMNS, rows)
    if not json:
        end = "There are more; --limit N shows them." if more else ""
        sys.stderr.write(f"{count(shown)} record{'' if shown == 1 else 's'}. {end}".rstrip() + "\n")
    if fail_empty and not shown:
        raise typer.Exit(NOTHING_FOUND)


def tail(
    topic: TopicName,
    partition: PartitionNumber = None,
    start: Annotated[int | None, typer.Option("--from", metavar="X", min=0, help="Begin at this offset instead of the end.")] = None,
    limit: Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="Stop after so many records.")] = None,
    decode: Decoder = "text",
    data: DataDir = None,
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Print records as they become durable, until Ctrl-C."""
    with opened(data, config) as (log, _), StopSignal() as stop:
        described = log.topic(topic)
        if partition is not None or start is not None:
            numbers = [only_partition(described, partition, "an offset belongs to one of them")]
        else:
            numbers = list(range(described.partitions))
        if len(numbers) > MOST_TAILED:
            raise BadInput(f"Topic {topic} has {len(numbers)} partitions, too many to follow at once.", hint="Name one with --partition N.")
        starts = {
            number: log.bounds(topic, number).end if start is None else checked_start(log, topic, number, start) for number in numbers
        }
        for seen, (number, record) in enumerate(follow(log, topic, starts, stop.stopped), 1):
            if json:
                print_json_line({"partition": number, **show_record(record, decode)})
            else:
                sys.stdout.write("  ".join(visible(cell) for cell in row_of(number, record, decode)).rstrip() + "\n")
            sys.stdout.flush()
            if seen == limit:
                break
        stop.event.set()


# -- which records ----------------------------------------------------------------------------------------------


def select(log: Log, topic: str, partition: int | None, first: int | None, last: int | None, key: str | None) -> Iterator[Found]:
    """The records asked for, partition after partition. Errors: as `Log.read`, before the first record."""
    described = log.topic(topic)
    if partition is None and first is None:
        numbers = range(described.partitions)
    else:
        only = only_partition(described, partition, "an offset belongs to one of them")
        numbers = range(only, only + 1)
    ranges = [(number, *_bounded(log, topic, number, first, last)) for number in numbers]
    return _records(log, topic, ranges, None if key is None else os.fsencode(key))


def checked_start(log: Log, topic: str, partition: int, start: int) -> int:
    """Where to begin; the end itself is fine. Errors: `OffsetGone`, `BadBounds`."""
    bounds = log.bounds(topic, partition)
    if start < bounds.start:
        raise OffsetGone(f"{topic} {partition} begins at offset {bounds.start}; {start} was deleted.", hint=f"Begin at {bounds.start}.")
    if start > bounds.end:
        raise BadBounds(
            f"{topic} {partition} ends before offset {bounds.end}; {start} is beyond.", hint=f"Begin at {bounds.end} or before."
        )
    return start


def _bounded(log: Log, topic: str, partition: int, first: int | None, last: int | None) -> tuple[int, int]:
    bounds = log.bounds(topic, partition)
    if first is None:
        return bounds.start, bounds.end
    checked_start(log, topic, partition, first)
    if first == bounds.end:
        what = f"its last is {bounds.end - 1}" if bounds.end > bounds.start else "it is empty"
        raise BadBounds(f"{topic} {partition} has no offset {first}: {what}.", hint=f"See `headwater log stats {topic}`.")
    return first, bounds.end if last is None else min(bounds.end, last + 1)


def _records(log: Log, topic: str, ranges: list[tuple[int, int, int]], key: bytes | None) -> Iterator[Found]:
    for partition, start, end in ranges:
        records = _read(log, topic, partition, start, end) if key is None else _with_key(log, topic, partition, start, end, key)
        for record in records:
            yield partition, record


def _read(log: Log, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
    while start < end and (records := log.read(topic, partition, start, limit=min(1000, end - start))):
        for record in records:
            if record.offset is None or record.offset >= end:
                return
            yield record
            start = record.offset + 1


def _with_key(log: Log, topic: str, partition: int, start: int, end: int, key: bytes) -> Iterator[Record]:
    """Columns are compared whole: only what matches becomes records."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in log.scan(topic, partition, start, end):
        matches = pc.equal(batch.column("key").cast(pa.binary()), pa.scalar(key, pa.binary()))
        for row in pc.indices_nonzero(matches).to_pylist():
            yield _row(batch, row)


def _row(batch: pa.RecordBatch, row: int) -> Record:
    from headwater.log.layout import decode_headers

    values: dict[str, Any] = {name: batch.column(name)[row].as_py() for name in batch.schema.names}
    block = values.pop("headers")
    return Record(**values, headers=() if block is None else tuple(decode_headers(block)))


def follow(log: Log, topic: str, starts: dict[int, int], stopped: Callable[[], bool]) -> Iterator[Found]:
    """Records of all partitions as they come. Order holds within a partition."""
    if len(starts) == 1:
        [(partition, start)] = starts.items()
        for records in log.tail(topic, partition, start, stopped=stopped):
            yield from ((partition, record) for record in records)
        return
    arrived = threading.Event()
    with ExitStack() as stack:
        watched = {partition: stack.enter_context(log.watch(topic, partition, arrived.set)) for partition in starts}
        starts = dict(starts)
        while not stopped():
            arrived.clear()  # before the looks: what comes after them ends the wait
            quiet = True
            for partition, watching in watched.items():
                if (end := watching.end()) > starts[partition]:
                    quiet, records = False, log.read(topic, partition, starts[partition])
                    yield from ((partition, record) for record in records)
                    starts[partition] = (records[-1].offset or 0) + 1 if records else end  # without any: brokers' own, or compacted away
            if quiet:
                arrived.wait(_TURN)


# -- how they look ----------------------------------------------------------------------------------------------


def row_of(partition: int, record: Record, decode: Decode) -> tuple[str, ...]:
    """The cells of a record."""
    shown = show_record(record, decode)
    more = [f"{name}={_cell(value)}" for name, value in shown["headers"]]
    if record.mode:
        more.insert(0, str(shown["mode"]))
    if record.op:
        more.insert(0, f"op {record.op}")
    return str(partition), str(record.offset), str(show_time(record.timestamp)), _cell(shown["key"]), _cell(shown["value"]), " ".join(more)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    import msgspec

    return msgspec.json.encode(value).decode()
