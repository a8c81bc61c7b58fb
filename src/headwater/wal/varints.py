"""Variable-length integers as protobuf writes them: one by one for fields, and whole columns at once for the map of a snapshot."""

from __future__ import annotations

import numpy as np

from headwater.wal.layout import MalformedRecord

_LONGEST = 10  # bytes of a varint of 64 bits


def encode_varint(number: int) -> bytes:
    """A number from 0 to 2^64 − 1."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it. Errors: `MalformedRecord`."""
    number = shift = 0
    while at < len(data) and shift < 7 * _LONGEST:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >= 1 << 64:
                break
            return number, at
        shift += 7
    raise MalformedRecord(f"a number at byte {at} of it has no end")


def encode_column(numbers: np.ndarray) -> bytes:
    """Signed numbers of 64 bits, each as the difference to the one before it: small where the column grows slowly."""
    if not len(numbers):
        return b""
    deltas = np.diff(numbers, prepend=np.int64(0))
    folded = ((deltas << 1) ^ (deltas >> 63)).view(np.uint64)  # the sign in the lowest bit
    groups = np.stack([(folded >> np.uint64(7 * place)) & np.uint64(0x7F) for place in range(_LONGEST)], axis=1).astype(np.uint8)
    sizes = np.maximum(1, _LONGEST - np.argmax(groups[:, ::-1] != 0, axis=1))
    sizes[~groups.any(axis=1)] = 1
    places = np.arange(_LONGEST)
    groups[places < sizes[:, None] - 1] |= 0x80
    return bytes(groups[places < sizes[:, None]])


def decode_column(data: bytes, count: int) -> np.ndarray:
    """What `encode_column` was given. Errors: `MalformedRecord` for another count, and for what is no such column."""
    found = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(found < 0x80)
    if len(ends) != count or (count and ends[-1] != len(found) - 1) or (not count and len(found)):
        raise MalformedRecord(f"its map has {len(ends)} offsets, where its tables have {count}")
    if not count:
        return np.zeros(0, np.int64)
    begins = np.concatenate(([0], ends[:-1] + 1))
    if int((ends - begins).max()) >= _LONGEST:
        raise MalformedRecord("its map has a number without an end")
    place = np.arange(len(found)) - np.repeat(begins, ends - begins + 1)
    parts = (found & 0x7F).astype(np.uint64) << (np.uint64(7) * place.astype(np.uint64))
    folded = np.add.reduceat(parts, begins)
    deltas = (folded >> np.uint64(1)).view(np.int64) ^ -(folded & np.uint64(1)).view(np.int64)
    return np.cumsum(deltas)
