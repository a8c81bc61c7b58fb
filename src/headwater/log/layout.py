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
from collections.abc import Sequence
from typing import NamedTuple

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
_NULL = U32.pack(NULL)
_MOST_HEADERS = 0xFFFF
_SMALL = 4096  # up to this many bytes, a copy costs less than a view
_VECTOR = 48  # from this many records on, numpy patches offsets faster than a loop


class EncodedBatch(NamedTuple):
    """Encoded records that still lack their offsets and their seal."""

    buffer: bytearray | memoryview
    starts: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.uint32]]
    records: int


def encode_headers(headers: Sequence[Header]) -> bytes:
    """The header block, its length first. Errors: `TooLarge` above 65 535 headers or bytes of a name, `BadInput` for a name with half of
    a character."""
    if len(headers) > _MOST_HEADERS:
        raise TooLarge(f"{len(headers)} headers are too many for a record.", hint="Keep them below 65 536.")
    length, parts = 2, [b"", U16.pack(len(headers))]
    for name, value in headers:
        try:
            text = name.encode()
        except UnicodeEncodeError:
            raise BadInput(f"The header name {name!r} is no text.", hint="Use whole characters.") from None
        if len(text) > 0xFFFF:
            raise TooLarge(f"A header's name of {len(text)} bytes is too long.", hint="Keep it below 64 KiB.")
        size = 0 if value is None else len(value)
        parts += (U16.pack(len(text)), text, _NULL if value is None else U32.pack(size), value or b"")
        length += 6 + len(text) + size
    parts[0] = U32.pack(length)
    return whole(parts, 4 + length)


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


def whole(parts: Sequence[bytes], size: int) -> bytes:
    """The parts in one. An array of numbers has another length than its bytes: with a wrong length, nothing behind it could be read."""
    joined = b"".join(parts)
    if len(joined) != size:
        raise TypeError("an array is given where bytes are expected")
    return joined


def too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(
        f"A record of {size} bytes is larger than the topic's limit of {limit}.",
        hint="Store it elsewhere and append its address, or raise log.max_record for new topics.",
    )


def seal(batch: EncodedBatch, offset: int, durable: int) -> None:
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
