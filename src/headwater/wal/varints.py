"""Variable-length integers as protobuf writes them: one by one for fields, and whole columns at once for the map of a snapshot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headwater.wal.layout import MalformedRecord

_LONGEST = 10  # bytes of a varint of 64 bits
_PIECE = 1 << 14  # numbers of a column at once: what is worked on stays in the processor's cache, and memory is used again


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


def varint_sizes(numbers: np.ndarray) -> np.ndarray:
    """How many bytes each of a column's numbers takes."""
    sizes = np.ones(numbers.shape, np.int64)
    largest = int(numbers.max()) if numbers.size else 0
    for place in range(1, _LONGEST):
        if largest >> (7 * place):  # else no number is so long
            sizes += numbers >= np.uint64(1 << (7 * place))
    return sizes


def encode_varints(numbers: np.ndarray, sizes: np.ndarray | None = None) -> bytes:
    """A column of numbers of 64 bits, one behind the other. `sizes`: those of `varint_sizes`; a number whose size is 0 is left out."""
    sizes = varint_sizes(numbers) if sizes is None else sizes
    ends = np.cumsum(sizes)
    begins = ends - sizes
    encoded = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for place in range(int(sizes.max()) if len(sizes) else 0):
        indexes = np.flatnonzero(sizes > place)
        part = (numbers[indexes] >> np.uint64(7 * place)).astype(np.uint8) & np.uint8(0x7F)
        encoded[begins[indexes] + place] = part | ((sizes[indexes] > place + 1).astype(np.uint8) << np.uint8(7))
    return encoded.tobytes()


def decode_varints(encoded: np.ndarray) -> np.ndarray:
    """The numbers that bytes hold. Errors: `MalformedRecord` for a number without an end."""
    ends = np.flatnonzero(encoded < 0x80)
    if len(encoded) and (not len(ends) or ends[-1] != len(encoded) - 1):
        raise MalformedRecord("its last number has no end")
    sizes = np.diff(ends, prepend=-1)
    longest = int(sizes.max()) if len(sizes) else 0
    if longest > _LONGEST:
        raise MalformedRecord("a number of it has no end")
    begins = ends - (sizes - 1)
    numbers: np.ndarray = (encoded[begins] & np.uint8(0x7F)).astype(np.uint64)
    for place in range(1, longest):
        indexes = np.flatnonzero(sizes > place)
        numbers[indexes] |= (encoded[begins[indexes] + place] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * place)
    return numbers


def encode_column(numbers: np.ndarray, pause: Callable[[], None] | None = None) -> bytes:
    """Signed numbers of 64 bits, each as the difference to the one before it: small where the column grows slowly.

    `pause`: is called about once a millisecond of the work.
    """
    parts, last = [], np.int64(0)
    for at in range(0, len(numbers), _PIECE):
        piece = numbers[at : at + _PIECE]
        deltas = np.diff(piece, prepend=last)
        last = piece[-1]
        parts.append(encode_varints(((deltas << 1) ^ (deltas >> 63)).view(np.uint64)))  # the sign in the lowest bit
        if pause is not None:
            pause()
    return b"".join(parts)


def decode_column(data: bytes, count: int, pause: Callable[[], None] | None = None) -> np.ndarray:
    """What `encode_column` was given. Errors: `MalformedRecord` for another count, and for what is no such column. `pause`: as there."""
    encoded = np.frombuffer(data, np.uint8)
    numbers, done, at = np.empty(min(count, len(encoded)), np.int64), 0, 0
    while at < len(encoded):
        end = min(at + _PIECE, len(encoded))
        while end < len(encoded) and end - at < _PIECE + _LONGEST and encoded[end - 1] >= 0x80:
            end += 1
        folded = decode_varints(encoded[at:end])
        if done + len(folded) <= len(numbers):
            numbers[done : done + len(folded)] = (folded >> np.uint64(1)).view(np.int64) ^ -(folded & np.uint64(1)).view(np.int64)
        at, done = end, done + len(folded)
        if pause is not None:
            pause()
    if done != count:
        raise MalformedRecord(f"its map has {done} offsets, where its tables have {count}")
    np.cumsum(numbers, out=numbers)
    return numbers
