"""`headwater log show` and `headwater log tail`: records for people and programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.log_topics import only_partition
from headwater.cli.options import PartitionNumber, TopicName
from headwater.cli.output import Column, count, print_json_line, print_table, visible
from headwater.cli.stop import StopSignal
from headwater.core.errors import BadBounds, BadInput, OffsetGone
from headwater.log.json_form import show_record
from headwater.log.record import Record
from headwater.wire.ranges import read_range
from headwater.wire.times import show_time

if TYPE_CHECKING:
    from headwater.client.blocking import BlockingLog

NOTHING_FOUND = 10
MOST_TAILED = 64  # partitions followed at once: each keeps files open
_PAGE = 1000  # records in one read
Decode = Literal["text", "json", "hex"]
Decoder = Annotated[Decode, typer.Option("--decode", help="How keys and values are shown. Bytes that are no text appear as base64.")]
COLUMNS = (Column("partition", True), Column("offset", True), Column("time"), Column("key"), Column("value"), Column("more"))
Found = tuple[int, Record]  # partition, record


@command(example="headwater log show orders 17..20")
def show(
    topic: TopicName,
    at: At,
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
) -> None:
    """Print records. With `--json` one object a line, as they are read."""
    first, last = read_range(offsets) if offsets is not None else (None, None)
    shown, more = 0, False
    rows: list[tuple[str, ...]] = []
    try:
        with at.door() as hw:
            for number, record in select(hw.log, topic, partition, first, last, key, limit + 1):
                if shown == limit:
                    more = True
                    break
                shown += 1
                if at.json:
                    print_json_line({"partition": number, **show_record(record, decode)})
                else:
                    rows.append(row_of(number, record, decode))
    finally:  # show the records before damage, too
        if rows:
            print_table(COLUMNS, rows)
    if not at.json:
        end = "There are more; --limit N shows them." if more else ""
        sys.stderr.write(f"{count(shown)} record{'' if shown == 1 else 's'}. {end}".rstrip() + "\n")
    if fail_empty and not shown:
        raise typer.Exit(NOTHING_FOUND)


@command(example="headwater log tail orders --from 17")
def tail(
    topic: TopicName,
    at: At,
    partition: PartitionNumber = None,
    start: Annotated[int | None, typer.Option("--from", metavar="X", min=0, help="Begin at this offset instead of the end.")] = None,
    limit: Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="Stop after so many records.")] = None,
    decode: Decoder = "text",
) -> None:
    """Print records as they become durable, until Ctrl-C."""
    with StopSignal() as stop, at.door() as hw:
        starts = _starts(hw.log, topic, partition, start)
        seen = 0
        for batch in hw.log.tail_topic(topic, starts):
            for number, record in batch[: None if limit is None else limit - seen]:
                if at.json:
                    print_json_line({"partition": number, **show_record(record, decode)})
                else:
                    sys.stdout.write("  ".join(visible(cell) for cell in row_of(number, record, decode)).rstrip() + "\n")
            seen += len(batch)
            sys.stdout.flush()
            if stop.stopped() or (limit is not None and seen >= limit):
                break
        stop.event.set()


# -- which records ----------------------------------------------------------------------------------------------


def select(
    log: BlockingLog, topic: str, partition: int | None, first: int | None, last: int | None, key: str | None, most: int = _PAGE
) -> Iterator[Found]:
    """The requested records, partition after partition; `most`: the likely number. Errors: as `read`, before the first record."""
    described = log.topic(topic)
    if partition is None and first is None:
        numbers = range(described.partitions)
    else:
        only = only_partition(described, partition, "an offset belongs to one of them")
        numbers = range(only, only + 1)
    ranges = [(number, *_bounded(log, topic, number, first, last)) for number in numbers]
    return _records(log, topic, ranges, None if key is None else os.fsencode(key), min(most, _PAGE))


def checked_start(log: BlockingLog, topic: str, partition: int, start: int) -> int:
    """The start offset, which may be the end. Errors: `OffsetGone`, `BadBounds`."""
    bounds = log.bounds(topic, partition)
    if start < bounds.start:
        raise OffsetGone(f"{topic} {partition} begins at offset {bounds.start}; {start} was deleted.", hint=f"Begin at {bounds.start}.")
    if start > bounds.end:
        raise BadBounds(
            f"{topic} {partition} ends before offset {bounds.end}; {start} is beyond.", hint=f"Begin at {bounds.end} or before."
        )
    return start


def _starts(log: BlockingLog, topic: str, partition: int | None, start: int | None) -> dict[int, int]:
    described = log.topic(topic)
    if partition is not None or start is not None:
        numbers = [only_partition(described, partition, "an offset belongs to one of them")]
    else:
        numbers = list(range(described.partitions))
    if len(numbers) > MOST_TAILED:
        raise BadInput(f"Topic {topic} has {len(numbers)} partitions, too many to follow at once.", hint="Name one with --partition N.")
    return {number: log.bounds(topic, number).end if start is None else checked_start(log, topic, number, start) for number in numbers}


def _bounded(log: BlockingLog, topic: str, partition: int, first: int | None, last: int | None) -> tuple[int, int]:
    bounds = log.bounds(topic, partition)
    if first is None:
        return bounds.start, bounds.end
    checked_start(log, topic, partition, first)
    if first == bounds.end:
        reason = f"its last is {bounds.end - 1}" if bounds.end > bounds.start else "it is empty"
        raise BadBounds(f"{topic} {partition} has no offset {first}: {reason}.", hint=f"See `headwater log stats {topic}`.")
    return first, bounds.end if last is None else min(bounds.end, last + 1)


def _records(log: BlockingLog, topic: str, ranges: list[tuple[int, int, int]], key: bytes | None, page: int) -> Iterator[Found]:
    for partition, start, end in ranges:
        while start < end and (records := log.read(topic, partition, start, stop=end, limit=page, key=key)):
            for record in records:
                yield partition, record
            start = (records[-1].offset or 0) + 1


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
