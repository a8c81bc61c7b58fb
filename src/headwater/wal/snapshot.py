"""A snapshot of a region's state, as records of its meta topic: the protobuf of the WAL on Kafka, with further fields.

    RegionMetaSnapshot   2 tables, repeated   3 watermark   4 epoch   5 chunk   6 chunks   7 map   9 generation of the data topic
                         8 crc32c, fixed32, always last
    TableMetaData        1 table   2 next   3 marked   4 watermark   5 safe offset, absent where everything is flushed

The map holds the offsets of all live payloads, table by table in the order of the tables, each as the difference to the one before it.
A snapshot that is longer than a record may be comes in chunks, one record each. They say which one they are of how many, and a snapshot
counts when every chunk of it is there and whole. A reader that does not know the further fields leaves them out.

The generation binds a snapshot to its log: offsets mean nothing in another topic of the same name. Snapshots of before lack it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

import google_crc32c
import msgspec
import numpy as np

from headwater.wal.layout import MAX_ID, MalformedRecord
from headwater.wal.region_meta import RegionMeta
from headwater.wal.table_meta import TableMeta
from headwater.wal.varints import decode_column, decode_varint, encode_column, encode_varint, encode_varints, varint_sizes

_VERSION = b"\x00"
_VARINT, _BYTES, _FIXED32 = 0, 2, 5  # protobuf's wire types
_TABLE, _WATERMARK, _EPOCH, _CHUNK, _CHUNKS, _MAP, _CRC, _GENERATION = 2, 3, 4, 5, 6, 7, 8, 9
_OVERHEAD = 64  # bytes of a chunk beside its tables, its piece of the map and the generation, at the most
_CRC_LENGTH = 5
_SIGNED = 1 << 63
_NUMBERS = 5  # of a table
TableRow = tuple[int, int, int, int, int | None]  # table, next, marked, watermark, safe offset


class SnapshotChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One chunk, decoded. Chunks of one snapshot have the same watermark, epoch, count and generation ("" in those of before).

    `count` is 0 for a snapshot of the WAL on Kafka itself: it has no watermark and no map, only each table's five numbers.
    """

    watermark: int
    epoch: int
    number: int
    count: int
    tables: tuple[TableRow, ...]
    map: bytes
    generation: str = ""


def encode_snapshot(meta: RegionMeta, limit: int, generation: str = "", *, pause: Callable[[], None] | None = None) -> list[bytes]:
    """The values of the records, each of at most `limit` bytes. `generation`: that of the data topic (`Topic.generation`). `pause`: is
    called about once a millisecond."""
    tables, ends = _tables(meta)
    columns = [table.column() for table in meta.tables.values()]
    offsets = encode_column(np.concatenate(columns) if columns else np.zeros(0, np.int64), pause)
    bound = _field(_GENERATION, generation.encode()) if generation else b""
    bodies = list(_bodies(tables, ends, offsets, limit - _OVERHEAD - len(bound)))
    head = _number(_WATERMARK, meta.watermark) + _number(_EPOCH, meta.epoch)
    return [
        _sealed(_VERSION + tables + head + _number(_CHUNK, number) + _number(_CHUNKS, len(bodies)) + piece + bound)
        for number, (tables, piece) in enumerate(bodies)
    ]


def _bodies(whole: bytes, ends: np.ndarray, offsets: bytes, room: int) -> Iterator[tuple[bytes, bytes]]:
    """Tables, which end at `ends`, and a piece of the map for each chunk: tables first, then the map in what is left."""
    at = done = 0
    while at < len(whole):
        fit = int(np.searchsorted(ends, at + room, side="right"))
        end = int(ends[fit - 1]) if fit else at
        if end <= at:
            raise ValueError(f"a chunk of {room} bytes has no room for a table")
        left = room - (end - at) if end == len(whole) else 0
        yield whole[at:end], _piece(offsets[:left])
        at, done = end, left
    if not whole:
        yield b"", b""
    for begin in range(done, len(offsets), room):
        yield b"", _piece(offsets[begin : begin + room])


def _piece(data: bytes) -> bytes:
    return _field(_MAP, data) if data else b""


def _tables(meta: RegionMeta) -> tuple[bytes, np.ndarray]:
    """The fields of all tables, and where each of them ends.

    As protobuf's own encoders write them: a number of 0 is left out, but not a safe offset of 0. Tags, lengths and numbers are varints all,
    so that the tables of a region are one column of varints.
    """
    rows = [(number, table.next, table.marked, table.watermark, table.safe_offset) for number, table in meta.tables.items()]
    numbers = np.zeros((len(rows), 2 + 2 * _NUMBERS), np.uint64)
    mask = np.ones(numbers.shape, bool)
    for place, column in enumerate(zip(*rows, strict=True)):
        tag, at = _tag(place + 1, _VARINT)[0], 2 + 2 * place
        numbers[:, at] = tag
        numbers[:, at + 1] = [number or 0 for number in column]
        mask[:, at : at + 2] = np.array([number is not None if place == _NUMBERS - 1 else number != 0 for number in column])[:, None]
    sizes = varint_sizes(numbers) * mask
    numbers[:, 0], numbers[:, 1] = _tag(_TABLE, _BYTES)[0], sizes[:, 2:].sum(axis=1)
    sizes[:, 1] = varint_sizes(numbers[:, 1])
    return encode_varints(numbers.ravel(), sizes.ravel()), np.cumsum(sizes.sum(axis=1))


def _tag(field: int, wire: int) -> bytes:
    return encode_varint(field << 3 | wire)


def _number(field: int, number: int) -> bytes:
    return _tag(field, _VARINT) + encode_varint(number) if number else b""


def _field(field: int, data: bytes) -> bytes:
    return _tag(field, _BYTES) + encode_varint(len(data)) + data


def _sealed(value: bytes) -> bytes:
    checksum: int = google_crc32c.value(value)
    return value + _tag(_CRC, _FIXED32) + checksum.to_bytes(4, "little")


def decode_chunk(value: bytes | None) -> SnapshotChunk:
    """One record's value. Errors: `MalformedRecord`, also where the checksum is another one."""
    if not value or value[:1] != _VERSION:
        raise MalformedRecord("it has no value" if not value else f"its value has version {value[0]}; this headwater knows version 0")
    numbers: dict[int, int] = {}
    tables: list[TableRow] = []
    offsets, generation, further = b"", b"", False
    for field, content in _fields(value, 1):
        further = further or field > _TABLE
        if isinstance(content, int):
            numbers[field] = content
        elif field == _TABLE:
            row, has_more = _decoded_table(content)
            tables.append(row)
            further = further or has_more  # a length that is wrong reaches over the checksum: the WAL on Kafka has no such fields
        elif field == _MAP:
            offsets = content
        elif field == _GENERATION:
            generation = content
    chunk, chunks = numbers.get(_CHUNK, 0), numbers.get(_CHUNKS, 0)
    if further and value[-_CRC_LENGTH:] != _sealed(value[:-_CRC_LENGTH])[-_CRC_LENGTH:]:
        raise MalformedRecord("its checksum is not that of its bytes")
    if further and not 0 <= chunk < chunks:
        raise MalformedRecord(f"it is chunk {chunk} of {chunks}")
    return SnapshotChunk(
        watermark=_signed(numbers.get(_WATERMARK, 0)),
        epoch=numbers.get(_EPOCH, 0),
        number=chunk,
        count=chunks,
        tables=tuple(tables),
        map=offsets,
        generation=generation.decode(errors="replace"),
    )


def _decoded_table(data: bytes) -> tuple[TableRow, bool]:
    """A table, and whether it has other fields than the five."""
    fields = list(_fields(data, 0))
    numbers = {field: content for field, content in fields if isinstance(content, int)}
    safe = numbers.get(5)
    row = numbers.get(1, 0), numbers.get(2, 0), numbers.get(3, 0), _signed(numbers.get(4, 0)), None if safe is None else _signed(safe)
    return row, any(field > 5 for field, _ in fields)


def _signed(number: int) -> int:
    """Errors: `MalformedRecord` for an offset below 0."""
    if number >= _SIGNED:
        raise MalformedRecord(f"it has the offset {number - MAX_ID - 1}")
    return number


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers, and bytes. Errors: `MalformedRecord`."""
    while at < len(data):
        tag, at = decode_varint(data, at)
        wire = tag & 7
        if wire == _VARINT:
            number, at = decode_varint(data, at)
            yield tag >> 3, number
            continue
        if wire not in (_BYTES, _FIXED32):
            raise MalformedRecord(f"a field of it has the wire type {wire}")
        length, at = decode_varint(data, at) if wire == _BYTES else (4, at)
        if at + length > len(data):
            raise MalformedRecord(f"a field of it ends at byte {at + length} of {len(data)}")
        yield tag >> 3, data[at : at + length]
        at += length


def joined(chunks: Sequence[SnapshotChunk]) -> RegionMeta:
    """The state that the chunks of one snapshot hold. Errors: those of `columns`."""
    rows, ends, column = columns(chunks)
    descents = np.flatnonzero(column[1:] < column[:-1]) + 1  # at the beginning of a table, they are none of it
    mixed = set((np.searchsorted(ends, descents[~np.isin(descents, ends)], side="right") - 1).tolist())
    tables = {
        number: TableMeta(next=next, marked=marked, watermark=watermark, offsets=column[begin:end], ascending=place not in mixed)
        for place, ((number, next, marked, watermark, _), (begin, end)) in enumerate(zip(rows, pairwise(ends), strict=True))
    }
    return RegionMeta(watermark=chunks[0].watermark, epoch=chunks[0].epoch, tables=tables)


def check_tables(rows: Sequence[TableRow]) -> None:
    """Errors: `MalformedRecord` where a table is named twice."""
    seen = set[int]()
    for number, *_ in rows:
        if number in seen:
            raise MalformedRecord(f"it has table {number} twice")
        seen.add(number)


def columns(chunks: Sequence[SnapshotChunk], *, pause: Callable[[], None] | None = None) -> tuple[list[TableRow], list[int], np.ndarray]:
    """The tables of a snapshot, and the offsets of all: those of table i lie between the i-th and the next one of the numbers.

    Errors: `MalformedRecord` where a chunk is missing, doubled or of another snapshot, and where tables and map do not fit together.
    """
    first = chunks[0] if chunks else None
    if first is None or [chunk.number for chunk in chunks] != list(range(first.count)):
        raise MalformedRecord("chunks of the snapshot are missing")
    if len({(chunk.watermark, chunk.epoch, chunk.count, chunk.generation) for chunk in chunks}) > 1:
        raise MalformedRecord("its chunks are of several snapshots")
    rows = [row for chunk in chunks for row in chunk.tables]
    check_tables(rows)
    if any(not 1 <= marked <= next for _, next, marked, _, _ in rows):
        raise MalformedRecord("it has a table that is flushed further than it was written")
    ends = list(accumulate((next - marked for _, next, marked, _, _ in rows), initial=0))
    column = decode_column(b"".join(chunk.map for chunk in chunks), ends[-1], pause)
    live = [begin for begin, end in pairwise(ends) if begin < end]
    lowest = iter(np.minimum.reduceat(column, live).tolist() if live else ())
    for number, end, marked, _, safe in rows:
        needed = next(lowest) if marked < end else None
        if needed != safe:
            raise MalformedRecord(f"table {number} needs the log from {needed} on by its map, and from {safe} on by its own field")
    if len(column) and not 0 <= int(column.min()) <= int(column.max()) < first.watermark:
        raise MalformedRecord(f"it places payloads below 0, or behind its watermark {first.watermark}")
    return rows, ends, column
