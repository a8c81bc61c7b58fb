"""Records as Kafka's messages and back. Pure: nothing here talks to a broker.

- Mode and op are one byte, mode | op << 2, in the header `headwater.mode`, which is left out when the byte is zero.
- Another producer's headers may be more, or longer, than the log's own form takes: what does not fit is left out. Headers with a name that
  is not UTF-8 cannot be read by the client at all: the record has the header `headwater.unreadable` in place of all of them.
- Kafka's clients send a timestamp of 0 as "now". A record of the time 0 is sent with Kafka's "no timestamp", -1, and read as 0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING

import msgspec

from headwater.core.errors import BadInput
from headwater.log.epochs import CLAIM, EPOCH, LENT
from headwater.log.layout import decode_headers, encode_headers, too_large
from headwater.log.record import Header, Record, unfit

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message

MODE = "headwater.mode"
UNREADABLE = "headwater.unreadable"
RESERVED = frozenset({MODE, EPOCH, LENT, CLAIM})
NO_TIMESTAMP = -1
FOREVER = (1 << 63) - 1
_MOST = 0xFFFF  # headers of a record, and bytes of a header's name
_headers: Callable[[Message], list[Header] | None] = methodcaller("headers")
_SURELY_FITS = _MOST // 4  # characters of a name: as UTF-8, each takes 4 bytes at most

Outgoing = tuple[bytes | None, bytes | None, list[Header], int]
"""Key, value, headers and timestamp, as the producer takes them."""


class RecordLimits(msgspec.Struct, frozen=True):
    """What brokers take of a topic's records."""

    max_record: int
    needs_key: bool = False
    before: int = FOREVER  # milliseconds that a record's time may lie before the broker's
    after: int = FOREVER  # and after it

    @property
    def unlimited(self) -> bool:
        """Whether they take every time and every key."""
        return not self.needs_key and self.before == self.after == FOREVER


def outgoing(records: Sequence[Record], *, now: int, limit: int, mark: Header | None = None) -> tuple[list[Outgoing], int]:
    """Check every record, then say how to send it, and how many bytes they are together. `mark` is a header that each of them gets.

    Errors: `BadInput` for no records, for fields of other types and for what does not fit into a record, `TooLarge` above `limit` bytes.
    """
    try:
        if not len(records):
            raise BadInput("An empty batch cannot be appended.", hint="Append at least one record.")
        return _outgoing(records, now, limit, mark)
    except (AttributeError, TypeError, ValueError, OverflowError, struct.error) as error:
        raise unfit(records, error) from error


def _outgoing(records: Sequence[Record], now: int, limit: int, mark: Header | None) -> tuple[list[Outgoing], int]:
    marks = [mark] if mark is not None else []
    sent: list[Outgoing] = []
    total = 0
    columns = msgspec.structs.astuple
    for record in records:
        key, value, headers, timestamp, mode, op, _ = columns(record)
        if type(key) is not bytes and key is not None:
            key = _bytes(key)
        if type(value) is not bytes and value is not None:
            value = _bytes(value)
        size = (len(key) if key else 0) + (len(value) if value else 0)
        added = marks
        if headers:
            size += len(encode_headers(headers))
            added = [*headers, *marks]
            _check_names(headers)
        if size > limit:
            raise too_large(size, limit)
        total += size
        if mode or op:
            if not (0 <= mode <= 3 and 0 <= op <= 7):
                raise BadInput(f"Mode {mode} and op {op} do not fit into a record.", hint="Mode is 0 to 3, op 0 to 7.")
            added = [*added, (MODE, bytes((mode | op << 2,)))]
        sent.append((key, value, added, now if timestamp is None else _timestamp(timestamp)))
    return sent, total


def _bytes(value: bytearray | memoryview) -> bytes:
    """Errors: `TypeError`; the client itself would take text, and encode it."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{type(value).__name__} where bytes belong")
    return bytes(value)


def check_limits(batch: tuple[list[Outgoing], int], now: int, limits: RecordLimits) -> tuple[list[Outgoing], int]:
    """Return the batch, if brokers take all its records: of a batch that a broker refuses, an earlier request may have been written.

    Topics of ours take every time and every key. Errors: `BadInput`, for the topics that others have made.
    """
    if limits.unlimited:
        return batch
    for place, (key, _, _, timestamp) in enumerate(batch[0]):
        if key is None and limits.needs_key:
            raise BadInput(
                f"Record {place} has no key, and the topic is compacted.",
                hint="Give it a key, or set the topic's cleanup.policy to delete.",
            )
        if timestamp != NO_TIMESTAMP and not -limits.before <= timestamp - now <= limits.after:
            raise BadInput(
                f"The timestamp {timestamp} of record {place} is too far from now for this topic.",
                hint="Change it, or the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms.",
            )
    return batch


def _timestamp(timestamp: int) -> int:
    if not 0 <= timestamp < 1 << 63:
        raise BadInput(f"{timestamp} is no timestamp.", hint="Give milliseconds since 1970, or None.")
    return timestamp or NO_TIMESTAMP


def _check_names(headers: Iterable[Header]) -> None:
    for name, _ in headers:
        if name in RESERVED:
            raise BadInput(f"The header {name} is the log's own.", hint="Use another name.")


def columns_outgoing(batch: pa.RecordBatch) -> list[Record]:
    """Arrow columns as records.

    Errors: `BadInput` when a column is missing, unknown or of another type.
    """
    import pyarrow as pa

    from headwater.log.arrow import check_columns

    check_columns(batch)
    names, count = set(batch.schema.names), batch.num_rows

    def listed(name: str, kind: pa.DataType, missing: int | None) -> list[int | None]:
        if name not in names:
            return [missing] * count
        column = batch.column(name)
        if missing is not None:
            column = column.fill_null(missing)
        cast: list[int | None] = column.cast(kind).to_pylist()
        return cast

    try:
        keys, values = (batch.column(name).cast(pa.binary()).to_pylist() for name in ("key", "value"))
        timestamps, modes, ops = listed("timestamp", pa.int64(), None), listed("mode", pa.int64(), 0), listed("op", pa.int64(), 0)
    except pa.ArrowException as error:
        raise BadInput(
            f"The columns cannot be appended: {error}.", hint="Give binary key and value, whole numbers for the others."
        ) from None
    blocks = batch.column("headers").cast(pa.binary()).to_pylist() if "headers" in names else [None] * count
    rows = zip(keys, values, blocks, timestamps, modes, ops, strict=True)
    return [
        Record(key, value, decode_headers(block) if block else (), timestamp, mode or 0, op or 0)
        for key, value, block, timestamp, mode, op in rows
    ]


def incoming(message: Message) -> Record:
    """A message as the record that was appended."""
    headers = headers_of(message)
    if headers:
        kept, mode, op = _split(headers)
    else:
        kept, mode, op = (), 0, 0
    return Record(message.key(), message.value(), kept, max(0, message.timestamp()[1]), mode, op, message.offset())


def headers_of(message: Message) -> list[Header]:
    """A message's headers. Call it once for each message: after a failure the client returns headers whose names are no objects, and
    reading them crashes the process."""
    try:
        # Not `message.headers()`: for a name that is not UTF-8 the client sets an exception and returns a list all the same. A call
        # by the interpreter's quick way for methods does not notice, and goes on with that list.
        return _headers(message) or []
    except (SystemError, UnicodeDecodeError):
        return [(UNREADABLE, None)]


def _split(headers: Iterable[Header]) -> tuple[tuple[Header, ...], int, int]:
    """The writer's headers, and mode and op from ours."""
    kept, mode, op = [], 0, 0
    for name, value in headers:
        if name == MODE and value is not None and len(value) == 1 and value[0] < 32:
            mode, op = value[0] & 3, value[0] >> 2
        elif len(name) <= _SURELY_FITS or len(name.encode()) <= _MOST:
            kept.append((name, value))
    return tuple(kept[:_MOST]), mode, op


def columns(messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages as one Arrow batch of `headwater.log.arrow.SCHEMA`."""
    import pyarrow as pa

    from headwater.log.arrow import SCHEMA

    blocks: list[bytes | None] = [None] * len(messages)
    modes, ops = bytearray(len(messages)), bytearray(len(messages))
    before: list[Header] = []  # most records of a Writer have the same headers as the one before
    block: bytes | None = None
    mode = op = 0
    for i, message in enumerate(messages):
        headers = headers_of(message)
        if headers:
            if headers != before:
                kept, mode, op = _split(headers)
                before, block = headers, encode_headers(kept) if kept else None
            blocks[i], modes[i], ops[i] = block, mode, op
    binary = pa.binary_view()
    arrays = [
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array([max(0, message.timestamp()[1]) for message in messages], pa.int64()),
        pa.array([message.key() for message in messages], binary),
        pa.array([message.value() for message in messages], binary),
        pa.array(blocks, binary),
        pa.array(modes, pa.uint8()),
        pa.array(ops, pa.uint8()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
