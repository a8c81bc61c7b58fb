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
from headwater.cli.stop import InterruptSignal
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
    read = _reader(form, None if key is None else os.fsencode(key))
    with InterruptSignal() as signals:
        target = _Target(topic, at, signals, "Value" if values else "Line")
        try:
            with at.door(changes=True) as hw:
                partitions = hw.log.topic(topic).partitions
                place = 0 if partition is None and partitions == 1 else partition
                if place is None and form == "text" and key is None:
                    raise MissingKey(
                        f"Topic {topic} has {partitions} partitions.", hint="Give a key with --key TEXT, or name one with --partition N."
                    )
                for batch in [list(enumerate(map(os.fsencode, values), 1))] if values else _batches():
                    target.append(hw.log, place, batch, read)
        except KeyboardInterrupt:
            raise signals.error(target.stopped(), hint=target.next_step()) from None
        finally:  # report appended records, also after an error
            target.tell()
        if not target.count:
            at.note("Nothing was appended: there was no record to append.")


class _Target:
    """The topic of the records, and what has become of them. `what` is a source of a record: a line, or a value of the command line."""

    def __init__(self, topic: str, at: At, signals: InterruptSignal, what: str) -> None:
        self._topic, self._at, self._signals, self._what = topic, at, signals, what
        self.count, self._ranges = 0, dict[int, tuple[int, int, int]]()
        self._last = 0  # the number of the last line that was appended
        self._under_way = ""  # which lines are being appended

    def append(
        self, log: BlockingLog, partition: int | None, lines: Iterable[tuple[int, bytes]], read: Callable[[bytes], Record | None]
    ) -> None:
        """Append the lines up to the first bad one. Errors: those of the log, naming the line and what was appended before it."""
        good: list[_Line] = []
        for number, line in lines:
            try:
                record = read(line)
            except BadInput as error:
                self._send(log, partition, good)
                raise self._at_line(f"{self._what} {number}", error) from None
            if record is not None:
                good.append(_Line(number, record))
        self._send(log, partition, good)

    def _send(self, log: BlockingLog, partition: int | None, lines: list[_Line]) -> None:
        if not lines:
            return
        span = f"{self._what} {lines[0].number}" if len(lines) == 1 else f"{self._what}s {lines[0].number} to {lines[-1].number}"
        try:
            with self._signals.finishing():
                self._under_way = span
                self._taken(_placed(log, self._topic, partition, [line.record for line in lines]), lines[-1].number)
        except BadInput as error:
            self._under_way = ""
            if len(lines) == 1:
                raise self._at_line(span, error) from None
            for line in lines:  # none of them was appended: append one by one to find the bad line
                self._send(log, partition, [line])
        except HeadwaterError as error:
            raise self._at_line(span, error) from error

    def _taken(self, placed: list[Placed], last: int) -> None:
        for record in placed:
            first, _, number = self._ranges.get(record.partition, (record.offset, 0, 0))
            self._ranges[record.partition] = (first, record.offset, number + 1)
        self.count, self._last, self._under_way = self.count + len(placed), last, ""
        if self._at.json:
            for record in placed:
                print_json_line(record)
        sys.stdout.flush()

    def _at_line(self, where: str, error: HeadwaterError) -> HeadwaterError:
        before = f"{count(self.count)} records before it were" if self.count > 1 else "1 record before it was"
        return type(error)(f"{where}: {error.message} {before if self.count else 'Nothing before it was'} appended.", hint=error.hint)

    def stopped(self) -> str:
        """What was appended before a signal ended the command, and what may have been."""
        ends = ", ".join(f"{self._topic} {partition} up to offset {last}" for partition, (_, last, _) in sorted(self._ranges.items()))
        done = f"{_records(self.count)} appended: {ends}." if self.count else "Nothing was appended."
        return f"Stopped by a signal. {done}" + (f" {self._under_way} may or may not be appended." if self._under_way else "")

    def next_step(self) -> str:
        """The hint for records that may or may not be there, or for the rest of the input."""
        if self._under_way:
            return f"Look at the end of the topic with `headwater log tail {self._topic}` before appending them again."
        return f"Nothing behind {self._what.lower()} {self._last} was appended." if self.count else ""

    def tell(self) -> None:
        """Print a summary for people; with `--json` each record has been printed."""
        if self._at.json:
            return
        for partition, (first, last, number) in sorted(self._ranges.items()):
            span = f"offset {first}" if first == last else f"offsets {first} to {last}"
            typer.echo(f"{self._topic} {partition}: {_records(number)} appended, {span}")


def _records(number: int) -> str:
    return f"{count(number)} record{'' if number == 1 else 's'}"


def _placed(log: BlockingLog, topic: str, partition: int | None, records: list[Record]) -> list[Placed]:
    from headwater.log.answers import Placed

    if partition is None:
        return log.append_by_key(topic, records)
    return [Placed(partition, offset) for offset in log.append(topic, partition, records)]


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
