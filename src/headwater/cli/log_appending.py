"""`headwater log append`: records from arguments and from standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.options import PartitionNumber, TopicName
from headwater.cli.output import count, print_json_line
from headwater.core.errors import BadInput, HeadwaterError, MissingKey, TooLarge
from headwater.core.units import Size
from headwater.log.json_form import read_line
from headwater.log.record import Record

if TYPE_CHECKING:
    from headwater.client.blocking import BlockingLog
    from headwater.log.answers import Placed

Format = Literal["text", "ndjson"]
_CHUNK = 1 << 20  # bytes read at once: the lines that have arrived become one batch
_LONGEST = 64 << 20  # bytes of a line


class _Line(NamedTuple):
    number: int
    record: Record


@command(example="headwater log append orders '{\"price\": 12}' --key 17")
def append(
    topic: TopicName,
    at: At,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="VALUE", help="A record each. Without any: lines of standard input.", show_default=False),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="The key of every record.")] = None,
    partition: PartitionNumber = None,
    form: Annotated[
        Format,
        typer.Option("--format", help="What a line of standard input is: a record's value, or an object with key, value, headers, …"),
    ] = "text",
) -> None:
    """Append records, and print where they are once they are durable. Without `--partition` each goes to the partition of its key."""
    if form == "ndjson" and (values or key is not None):
        raise typer.BadParameter("With --format ndjson every line of standard input has its own key and value; give neither here.")
    with at.door(changes=True) as hw:
        partitions = hw.log.topic(topic).partitions
        place = 0 if partition is None and partitions == 1 else partition
        if place is None and form == "text" and key is None:
            raise MissingKey(
                f"Topic {topic} has {partitions} partitions.", hint="Give a key with --key TEXT, or name one with --partition N."
            )
        read = _reader(form, None if key is None else os.fsencode(key))
        target = _Target(hw.log, topic, place, at)
        try:
            for batch in [list(enumerate(map(os.fsencode, values), 1))] if values else _batches():
                target.append(batch, read, "Value" if values else "Line")
        finally:  # report appended records, also after an error
            target.tell()
        if not target.count:
            at.note("Nothing was appended: there was no record to append.")


class _Target:
    """The topic and partition of the records, and the offsets of appended ones."""

    def __init__(self, log: BlockingLog, topic: str, partition: int | None, at: At) -> None:
        self._log, self._topic, self._partition, self._at = log, topic, partition, at
        self.count, self._ranges = 0, dict[int, tuple[int, int, int]]()

    def append(self, lines: Iterable[tuple[int, bytes]], read: Callable[[bytes], Record | None], what: str) -> None:
        """Append the lines up to the first bad one. Errors: those of the log, naming the line and what was appended before it."""
        good: list[_Line] = []
        for number, line in lines:
            try:
                record = read(line)
            except BadInput as error:
                self._send(good, what)
                raise self._at_line(f"{what} {number}", error) from None
            if record is not None:
                good.append(_Line(number, record))
        self._send(good, what)

    def _send(self, lines: list[_Line], what: str) -> None:
        if not lines:
            return
        try:
            self._taken(self._placed([line.record for line in lines]))
        except BadInput as error:
            if len(lines) == 1:
                raise self._at_line(f"{what} {lines[0].number}", error) from None
            for line in lines:  # none of them was appended: append one by one to find the bad line
                self._send([line], what)
        except HeadwaterError as error:
            span = f"{what} {lines[0].number}" if len(lines) == 1 else f"{what}s {lines[0].number} to {lines[-1].number}"
            raise self._at_line(span, error) from error

    def _placed(self, records: list[Record]) -> list[Placed]:
        from headwater.log.answers import Placed

        if self._partition is None:
            return self._log.append_by_key(self._topic, records)
        return [Placed(self._partition, offset) for offset in self._log.append(self._topic, self._partition, records)]

    def _taken(self, placed: list[Placed]) -> None:
        for one in placed:
            if self._at.json:
                print_json_line(one)
            first, _, number = self._ranges.get(one.partition, (one.offset, 0, 0))
            self._ranges[one.partition] = (first, one.offset, number + 1)
        self.count += len(placed)
        sys.stdout.flush()

    def _at_line(self, where: str, error: HeadwaterError) -> HeadwaterError:
        before = f"{count(self.count)} records before it were" if self.count > 1 else "1 record before it was"
        return type(error)(f"{where}: {error.message} {before if self.count else 'Nothing before it was'} appended.", hint=error.hint)

    def tell(self) -> None:
        """Print a summary for people; with `--json` each record has been printed."""
        if self._at.json:
            return
        for partition, (first, last, number) in sorted(self._ranges.items()):
            span = f"offset {first}" if first == last else f"offsets {first} to {last}"
            typer.echo(f"{self._topic} {partition}: {count(number)} record{'' if number == 1 else 's'} appended, {span}")


def _reader(form: Format, key: bytes | None) -> Callable[[bytes], Record | None]:
    """The function that parses a line into a record; None for an empty line."""
    if form == "text":
        return lambda line: Record(key, line)
    return lambda line: read_line(line) if line.strip() else None


def _batches() -> Iterator[list[tuple[int, bytes]]]:
    """The lines of standard input with their numbers, in batches of what has arrived, so that no line waits for later input."""
    if sys.stdin.isatty():
        typer.echo("Reading records from standard input, one a line, until Ctrl-D.", err=True)
    number, rest = 0, b""
    while chunk := os.read(0, _CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LONGEST:
            raise TooLarge(
                f"Line {number + len(lines) + 1} is longer than {Size(_LONGEST)}.", hint="Records have their ends of line between them."
            )
        if lines:
            yield list(enumerate(lines, number + 1))
            number += len(lines)
    if rest:
        yield [(number + 1, rest)]
