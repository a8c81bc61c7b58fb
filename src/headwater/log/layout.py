"""The bytes of a record and of a batch. Pure: nothing here opens a file.

A record, big-endian:  offset 8 | message length 4 (= 8 + K + D) | timestamp 8 (ms) | mode 1 | key length 4 | key K | data length 4 | data D

The mode byte:  bits 0-1 mode, bits 2-4 op, bit 5 null value, bit 6 the data begins with a header block,
bit 7 the record is the last of its batch and its data ends with the trailer. A null key has length FFFFFFFF and no bytes.

Header block:  block length 4 (of what follows) | count 2 | per header: name length 2 | name | value length 4 (FFFFFFFF: null) | value
Trailer:       durable end 8 | batch length 4 | crc32c 4, over everything in the batch before the crc
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from google_crc32c import value as crc32c

from headwater.core.errors import BadInput, TooLarge
from headwater.log.record import Header, Record

HEAD = struct.Struct(">QIQBI")  # offset, message length, timestamp, mode, key length
U16, U32, U64 = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">Q")
TRAILER = struct.Struct(">QII")
NULL = 0xFFFFFFFF
BEFORE_MESSAGE = 21  # bytes of a record that its message length does not count
SMALLEST = 29  # bytes of a record with neither key nor data
NO_VALUE, HEADERS, LAST = 0x20, 0x40, 0x80
MAX_BATCH = 64 << 20
_OPEN = bytes(TRAILER.size)  # where a batch's trailer goes
_SMALL = 4096  # up to this many bytes, a copy costs less than a view
_VECTOR = 48  # from this many records on, numpy patches offsets faster than a loop


class Batch(NamedTuple):
    """Encoded records that still lack their offsets and their seal."""

    buffer: bytearray | memoryview
    starts: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.uint32]]
    records: int


def encode_headers(headers: Sequence[Header]) -> bytes:
    """The header block, its length first."""
    parts = [U16.pack(len(headers))]
    for name, value in headers:
        text = name.encode()
        if len(text) > 0xFFFF:
            raise TooLarge(f"A header's name of {len(text)} bytes is too long.", hint="Keep it below 64 KiB.")
        parts += [U16.pack(len(text)), text]
        parts += [U32.pack(NULL)] if value is None else [U32.pack(len(value)), value]
    block = b"".join(parts)
    return U32.pack(len(block)) + block


def decode_headers(block: bytes | memoryview) -> tuple[Header, ...]:
    """What `encode_headers` was given."""
    (count,) = U16.unpack_from(block, 4)
    at = 6
    headers: list[Header] = []
    for _ in range(count):
        (length,) = U16.unpack_from(block, at)
        name = bytes(block[at + 2 : at + 2 + length]).decode()
        at += 2 + length
        (length,) = U32.unpack_from(block, at)
        at += 4
        if length == NULL:
            headers.append((name, None))
        else:
            headers.append((name, bytes(block[at : at + length])))
            at += length
    return tuple(headers)


def _plain(key: bytes, value: bytes, now: int, seal: int) -> bytes:
    """A record of key and value alone. `seal`: 16 where the trailer follows, else 0."""
    k, v = len(key), len(value) + seal
    return b"".join((HEAD.pack(0, 8 + k + v, now, LAST if seal else 0, k), key, U32.pack(v), value))


def _record(record: Record, now: int, limit: int, seal: int) -> bytes:
    """Any record. `seal` as for `_plain`."""
    key, value, headers, timestamp, mode, op, _ = msgspec.structs.astuple(record)
    if not (key is None or value is None or headers or mode or op or timestamp is not None):
        if len(key) + len(value) > limit:
            raise too_large(len(key) + len(value), limit)
        return _plain(key, value, now, seal)
    bits = mode | op << 2 | (NO_VALUE if value is None else 0) | (HEADERS if headers else 0) | (LAST if seal else 0)
    if not (0 <= mode <= 3 and 0 <= op <= 7):
        raise BadInput(f"Mode {mode} and op {op} do not fit into a record.", hint="Mode is 0 to 3, op 0 to 7.")
    if timestamp is not None and not 0 <= timestamp < 1 << 63:
        raise BadInput(f"{timestamp} is no timestamp.", hint="Give milliseconds since 1970, or None.")
    block = encode_headers(headers) if headers else b""
    k, data = len(key or b""), len(block) + len(value or b"")
    if k + data > limit:
        raise too_large(k + data, limit)
    data += seal
    head = HEAD.pack(0, 8 + k + data, now if timestamp is None else timestamp, bits, NULL if key is None else k)
    return b"".join((head, key or b"", U32.pack(data), block, value or b""))


def too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(
        f"A record of {size} bytes is larger than the topic's limit of {limit}.",
        hint="Store it elsewhere and append its address, or raise log.max_record for new topics.",
    )


def encode(records: Sequence[Record], *, now: int, limit: int = 16 << 20) -> Batch:
    """Encode records as one batch, offsets and seal left open: that is done under the partition's lock, this outside.

    Errors: `BadInput` for no records, `TooLarge` for a record above `limit` bytes or a batch above 64 MiB.
    """
    last = len(records) - 1
    if last < 0:
        raise BadInput("An empty batch cannot be appended.", hint="Append at least one record.")
    sealed = _record(records[last], now, limit, TRAILER.size)
    if last == 0:
        return Batch(bytearray().join((sealed, _OPEN)), (0,), 1)
    parts: list[bytes] = []
    lengths: list[int] = []
    add, measure, columns = parts.append, lengths.append, msgspec.structs.astuple
    key_length = value_length = message = -1
    pack: Callable[..., bytes] | None = None
    for record in records[:last]:
        key, value, headers, timestamp, mode, op, _ = columns(record)
        if key is None or value is None or headers or mode or op or timestamp is not None:
            add(_record(record, now, limit, 0))
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
    if len(buffer) > MAX_BATCH:
        raise TooLarge(f"A batch of {len(buffer)} bytes is larger than 64 MiB.", hint="Append it in several batches.")
    starts = np.zeros(last + 1, np.uint32)
    np.cumsum(lengths, dtype=np.uint32, out=starts[1:])
    return Batch(buffer, starts, last + 1)


def seal(batch: Batch, offset: int, durable: int) -> None:
    """Give a batch its offsets, the durable end as known now, its length and its checksum. May be done again with others."""
    buffer = batch.buffer
    if batch.records < _VECTOR:
        for i in range(batch.records):
            U64.pack_into(buffer, batch.starts[i], offset + i)
    else:
        overlapping = np.ndarray((len(buffer) - 7,), ">u8", buffer, 0, (1,))
        overlapping[batch.starts] = np.arange(offset, offset + batch.records, dtype=np.uint64)
    close(buffer, durable)


def close(buffer: bytearray | memoryview, durable: int) -> None:
    """Put the trailer behind a batch whose offsets are right: the durable end, the length and the checksum."""
    end = len(buffer)
    TRAILER.pack_into(buffer, end - 16, durable, end, 0)
    # crc32c takes neither bytearrays nor memoryviews of them: a view by numpy makes no copy.
    U32.pack_into(buffer, end - 4, crc32c(bytes(buffer[: end - 4]) if end < _SMALL else np.frombuffer(buffer, np.uint8, end - 4)))


def decode(data: bytes | mmap.mmap, at: int) -> Record:
    """The record that begins at `at`. The bytes must have been checked."""
    offset, message, timestamp, bits, key_length = HEAD.unpack_from(data, at)
    at += HEAD.size
    end = at + message - 4
    if bits & LAST:
        end -= TRAILER.size
    if not bits & (NO_VALUE | HEADERS) and key_length != NULL:  # most records: nothing but key and value
        middle = at + key_length
        return Record(data[at:middle], data[middle + 4 : end], (), timestamp, bits & 3, bits >> 2 & 7, offset)
    key = None
    if key_length != NULL:
        key = data[at : at + key_length]
        at += key_length
    at += 4
    headers: tuple[Header, ...] = ()
    if bits & HEADERS:
        stop = at + 4 + U32.unpack_from(data, at)[0]
        headers = decode_headers(data[at:stop])
        at = stop
    return Record(key, None if bits & NO_VALUE else data[at:end], headers, timestamp, bits & 3, bits >> 2 & 7, offset)
