"""Encodes records as the bytes of a batch: one by one, or many by columns. Does no I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import numpy as np

from headwater.core.errors import BadInput, TooLarge
from headwater.log.layout import (
    BEFORE_MESSAGE,
    HEAD,
    HEADERS,
    LAST,
    MAX_BATCH,
    NO_VALUE,
    NULL,
    SMALLEST,
    TRAILER,
    U32,
    EncodedBatch,
    encode_headers,
    too_large,
    whole,
)
from headwater.log.record import Header, Record, unfit
from headwater.log.record_columns import RecordColumns

_PAIR = struct.Struct(">II")
_FIELDS = ((">u4", 8), (">u8", 12), ("u1", 20), (">u4", 21))  # of a record's head, behind the offset: kind and place
_COLUMNS = 32  # from this many records on, columns are quicker to encode than records
_MIXED = 128  # the same for records of different lengths
_OPEN = bytes(TRAILER.size)  # where a batch's trailer goes
_Column = np.ndarray[tuple[int], np.dtype[Any]]
_Numbers = int | _Column  # one for all records, or one for each
_Shape = tuple[str, int, int, int]  # a header's name, and the lengths of its value, of the key and of the record's value


class _HeaderColumns(NamedTuple):
    """The header blocks of many records: bytes that all share, then columns; their size; numbers to put into them, and where."""

    same: bytes
    columns: list[list[bytes]]
    size: _Numbers
    numbers: list[tuple[int, _Numbers]]


_OTHER_TYPES = (TypeError, AttributeError, ValueError, OverflowError, struct.error)  # what Python raises for fields of other types
_NO_HEADERS = _HeaderColumns(b"", [], 0, [])


def encode(records: Sequence[Record], *, now: int, limit: int = 16 << 20) -> EncodedBatch:
    """Encode records as one batch without offsets and seal. `seal` adds those under the partition's lock.

    Errors: `BadInput` for no records and for fields of other types, `TooLarge` for a record above `limit` bytes or a batch above 64 MiB.
    """
    try:
        count = len(records)
        if not count:
            raise BadInput("An empty batch cannot be appended.", hint="Append at least one record.")
        if count == 1:
            return EncodedBatch(bytearray().join((_record(records[0], now, limit, TRAILER.size), _OPEN)), (0,), 1)
        worth = count >= _MIXED or (count >= _COLUMNS and _alike(records[0], records[-1]))
        return (worth and encode_by_columns(records, now, limit)) or encode_one_by_one(records, now, limit)
    except _OTHER_TYPES as error:
        raise unfit(records, error) from error


def _alike(record: Record, other: Record) -> bool:
    """Whether all records have keys, values and headers of the same lengths, which is common in large batches."""
    return (
        len(record.key or b"") == len(other.key or b"")
        and len(record.value or b"") == len(other.value or b"")
        and [len(value or b"") for _, value in record.headers] == [len(value or b"") for _, value in other.headers]
    )


def encode_one_by_one(records: Sequence[Record], now: int, limit: int) -> EncodedBatch:
    """Encode any batch record by record. Raises the errors of `encode`, which name the bad record."""
    try:
        return _one_by_one(records, now, limit)
    except _OTHER_TYPES as error:
        raise unfit(records, error) from error


def _one_by_one(records: Sequence[Record], now: int, limit: int) -> EncodedBatch:
    last = len(records) - 1
    sealed = _record(records[last], now, limit, TRAILER.size)
    parts: list[bytes] = []
    lengths: list[int] = []
    add, measure, columns = parts.append, lengths.append, msgspec.structs.astuple
    key_length = value_length = message = -1
    pack: Callable[..., bytes] | None = None
    shape: _Shape = ("", -1, -1, -1)
    head, middle, size = b"", b"", 0
    for record in records[:last]:
        key, value, headers, timestamp, mode, op, _ = columns(record)
        if key is None or value is None or headers or mode or op or timestamp is not None:
            if len(headers) == 1 and not (key is None or value is None or mode or op or timestamp is not None):
                ((name, content),) = headers
                if content is not None:
                    if (this := (name, len(content), len(key), len(value))) != shape:
                        head, middle, size = _around(this, now, limit, 0)
                        shape = this
                    parts += (head, key, middle, content, value)
                    measure(size)
                    continue
            add(_other(key, value, headers, timestamp, mode, op, now, limit, 0))
            measure(len(parts[-1]))
            continue
        k, v = len(key), len(value)
        if k != key_length or v != value_length:
            if k + v > limit:
                raise too_large(k + v, limit)
            key_length, value_length, message, pack = k, v, 8 + k + v, None
            add(_plain(key, value, now, 0))
        else:
            if pack is None:  # the quickest for many of one shape; making it takes as long as packing three, so not before the second
                pack = struct.Struct(f">QIQBI{k}sI{v}s").pack
            add(pack(0, message, now, 0, k, key, v, value))
        measure(message + BEFORE_MESSAGE)
    parts += (sealed, _OPEN)
    buffer = bytearray().join(parts)
    starts = list(accumulate(lengths, initial=0))
    if len(buffer) != starts[-1] + len(sealed) + TRAILER.size:
        raise TypeError("an array is given where bytes are expected")
    if len(buffer) > MAX_BATCH:
        raise TooLarge(f"A batch of {len(buffer)} bytes is larger than 64 MiB.", hint="Append it in several batches.")
    return EncodedBatch(buffer, starts, last + 1)


def _plain(key: bytes, value: bytes, now: int, seal: int) -> bytes:
    """A record of key and value alone. `seal`: 16 where the trailer follows, else 0."""
    k, v = len(key), len(value) + seal
    return whole((HEAD.pack(0, 8 + k + v, now, LAST if seal else 0, k), key, U32.pack(v), value), SMALLEST + k + v - seal)


@lru_cache(maxsize=64)
def _single(name: str) -> bytes:
    """What lies between the length of a block and the value's length, where the block has one header: names are few, and come again."""
    return encode_headers(((name, b""),))[4:-4]


def _around(shape: _Shape, now: int, limit: int, seal: int) -> tuple[bytes, bytes, int]:
    """For records of key, value and one header: what comes before the key, and between the key and the header's value; and their size."""
    name, content, key, value = shape
    same = _single(name)
    block = len(same) + 4 + content
    data = 4 + block + value
    if key + data > limit:
        raise too_large(key + data, limit)
    head = HEAD.pack(0, 8 + key + data + seal, now, HEADERS | LAST if seal else HEADERS, key)
    return head, _PAIR.pack(data + seal, block) + same + U32.pack(content), SMALLEST + key + data


def _record(record: Record, now: int, limit: int, seal: int) -> bytes:
    """Encode one record of any shape. `seal` as for `_plain`."""
    key, value, headers, timestamp, mode, op, _ = msgspec.structs.astuple(record)
    if not (key is None or value is None or headers or mode or op or timestamp is not None):
        if len(key) + len(value) > limit:
            raise too_large(len(key) + len(value), limit)
        return _plain(key, value, now, seal)
    if len(headers) == 1 and not (key is None or value is None or mode or op or timestamp is not None):
        ((name, content),) = headers
        if content is not None:
            head, middle, size = _around((name, len(content), len(key), len(value)), now, limit, seal)
            return whole((head, key, middle, content, value), size)
    return _other(key, value, headers, timestamp, mode, op, now, limit, seal)


def _other(
    key: bytes | None, value: bytes | None, headers: Sequence[Header], time: int | None, mode: int, op: int, now: int, limit: int, seal: int
) -> bytes:
    """Encode a record that has headers, a mode, an op or a timestamp, or that lacks a key or a value."""
    bits = mode | op << 2 | (NO_VALUE if value is None else 0) | (HEADERS if headers else 0) | (LAST if seal else 0)
    if not (0 <= mode <= 3 and 0 <= op <= 7):
        raise BadInput(f"Mode {mode} and op {op} do not fit into a record.", hint="Mode is 0 to 3, op 0 to 7.")
    if time is not None and not 0 <= time < 1 << 63:
        raise BadInput(f"{time} is no timestamp.", hint="Give milliseconds since 1970, or None.")
    block = encode_headers(headers) if headers else b""
    k, data = len(key or b""), len(block) + len(value or b"")
    if k + data > limit:
        raise too_large(k + data, limit)
    data += seal
    head = HEAD.pack(0, 8 + k + data, now if time is None else time, bits, NULL if key is None else k)
    return whole((head, key or b"", U32.pack(data), block, value or b""), SMALLEST + k + data - seal)


def encode_by_columns(records: Sequence[Record], now: int, limit: int) -> EncodedBatch | None:
    """The same bytes as `encode_one_by_one`, without a step for each record. None where that function would raise."""
    try:
        return _by_columns(records, now, limit)
    except Exception:  # `encode_one_by_one` reports what is wrong
        return None


def _by_columns(records: Sequence[Record], now: int, limit: int) -> EncodedBatch | None:
    count, plain = len(records), records if isinstance(records, RecordColumns) else None
    keys, key_size, no_key = _measured(plain.keys if plain is not None else [record.key for record in records])
    values, data_size, no_value = _measured(plain.values if plain is not None else [record.value for record in records])
    times: _Numbers = now
    bits: _Numbers = 0
    headers = _NO_HEADERS
    if plain is None and [1 for record in records if record.headers or record.mode or record.op or record.timestamp is not None]:
        if [1 for record in records if record.mode or record.op or record.timestamp is not None]:
            times, bits = _times([record.timestamp for record in records], now), _mode_bits(records)
        headers = _header_columns([record.headers for record in records])
        data_size, bits = data_size + headers.size, bits | (headers.size > 0) * HEADERS
    if no_value is not None:
        bits = bits | no_value * NO_VALUE
    size = SMALLEST + key_size + data_size
    starts, largest, total = _places(size, count)
    if largest - SMALLEST > limit or total + TRAILER.size > MAX_BATCH:
        return None
    # Numbers that all records share are packed once; the others are put into their places afterwards.
    fields = (8 + key_size + data_size, times, bits, key_size if no_key is None else np.where(no_key, NULL, key_size))
    columns = [*headers.columns, values]
    pattern = [HEAD.pack(0, *map(_shared, fields)), b"", U32.pack(_shared(data_size)) + headers.same, *(b"" for _ in columns)]
    parts = pattern * count
    parts[1 :: len(pattern)] = keys
    for i, column in enumerate(columns, 3):
        parts[i :: len(pattern)] = column
    parts.append(_OPEN)
    buffer = bytearray().join(parts)
    if len(buffer) != total + TRAILER.size:  # such as an array of numbers: its length is not its number of bytes
        return None
    for (kind, at), numbers in zip(_FIELDS, fields, strict=True):
        _put(buffer, starts, at, kind, numbers)
    _put(buffer, starts, HEAD.size + key_size, ">u4", data_size)
    for at, numbers in headers.numbers:
        _put(buffer, starts, SMALLEST + key_size + at, ">u4", numbers)
    last = int(starts[-1])
    buffer[last + 20] |= LAST
    for place in (last + 8, last + HEAD.size + len(keys[-1])):  # the trailer is a part of the last record's data
        U32.pack_into(buffer, place, U32.unpack_from(buffer, place)[0] + TRAILER.size)
    return EncodedBatch(buffer, starts, count)


def _places(size: _Numbers, count: int) -> tuple[_Column, int, int]:
    """Where records of these sizes begin, the largest one, and all together."""
    if isinstance(size, int):
        return np.arange(0, size * count, size, dtype=np.uint32), size, size * count
    starts = np.zeros(count, np.uint32)
    np.cumsum(size[:-1], out=starts[1:])
    return starts, int(size.max()), int(size.sum())


def _measured(column: Sequence[bytes | None]) -> tuple[list[bytes], _Numbers, _Column | None]:
    """The column with empty bytes for nulls, its lengths, and where the nulls were."""
    try:
        return column, _sizes(column), None  # type: ignore[arg-type, return-value]
    except TypeError:  # None has no length
        filled = [b"" if part is None else part for part in column]
        return filled, _sizes(filled), np.fromiter((part is None for part in column), np.bool_, len(column))


def _times(given: Sequence[int | None], now: int) -> _Numbers:
    if given.count(None) == len(given):
        return now
    times = np.array([now if each is None else each for each in given])
    if times.dtype.kind != "i" or times.min() < 0:
        raise ValueError
    return times


def _mode_bits(records: Sequence[Record]) -> _Numbers:
    modes, ops = [record.mode for record in records], [record.op for record in records]
    if not any(ops) and not any(modes):
        return 0
    if not all(0 <= mode <= 3 for mode in set(modes)) or not all(0 <= op <= 7 for op in set(ops)):
        raise ValueError
    return np.array(modes, np.int64) | np.array(ops, np.int64) << 2


def _header_columns(headers: Sequence[tuple[Header, ...]]) -> _HeaderColumns:
    if not any(headers):
        return _NO_HEADERS
    try:
        first = headers[0][0][0]
        single = [value for ((name, value),) in headers if name == first]
    except (IndexError, ValueError):  # some have none, or several
        single = []
    if len(single) == len(headers):
        values, size, nulls = _measured(single)
        if nulls is None:  # one header, of one name: all but the lengths and the values is the same
            same = encode_headers(((first, bytes(_shared(size))),))[: -_shared(size) or None]
            block = len(same) + size
            return _HeaderColumns(same, [values], block, [(0, block - 4), (len(same) - 4, size)])
    blocks = [encode_headers(each) if each else b"" for each in headers]
    return _HeaderColumns(b"", [blocks], _sizes(blocks), [])


def _sizes(column: Sequence[bytes]) -> _Numbers:
    """The length that all have, or the lengths of each."""
    lengths = set(map(len, column))
    return lengths.pop() if len(lengths) == 1 else np.fromiter(map(len, column), np.int64, len(column))


def _shared(numbers: _Numbers) -> int:
    return numbers if isinstance(numbers, int) else 0


def _put(buffer: bytearray, starts: _Column, at: _Numbers, kind: str, numbers: _Numbers) -> None:
    """Put numbers into records, `at` so many bytes from their starts. What all share is there already."""
    if not isinstance(numbers, int):
        np.ndarray((len(buffer) - np.dtype(kind).itemsize + 1,), kind, buffer, 0, (1,))[starts + at] = numbers
