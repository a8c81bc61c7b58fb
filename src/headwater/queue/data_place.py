"""Data for which memory has no room stay on the log. A place stands for them: in the memory of the queue, and in later records.

    sequence u64 | place u32 | length u32 | crc32c u32

The sequence is that of the record that holds the data, the place the byte of its payload at which they begin. Length and sum tell whether
two rows have the same data, and whether what was read is what was put. A sum takes microseconds on the event loop where a digest takes
milliseconds; other data of the same length and sum, one in four billions, replace the former ones like any, and the row only keeps its
failures.
"""

from __future__ import annotations

import struct

from google_crc32c import value as crc32c

LARGE = 1024
"""Data of more bytes than these stay on the log."""

_PLACE = struct.Struct(">QIII")
_WHAT = 12  # where the length begins: what follows is of the data, not of where they lie
_LENGTH_SUM = struct.Struct(">II")


class DataPlace(bytes):
    """Where the data of a row lie. It is in the place of the data until they are read."""

    __slots__ = ()

    @property
    def sequence(self) -> int:
        """Of the record that holds them."""
        return int.from_bytes(self[:8], "big")

    @property
    def begin(self) -> int:
        """The byte of the record's payload at which they begin."""
        return int.from_bytes(self[8:_WHAT], "big")

    @property
    def length(self) -> int:
        return int.from_bytes(self[_WHAT:16], "big")

    def cut(self, payload: bytes) -> bytes | None:
        """The data, of the payload that holds them. None: they are not there."""
        data = payload[self.begin : self.begin + self.length]
        return data if _what(data) == self[_WHAT:] else None


PLACE_SIZE = _PLACE.size


def place_of(data: bytes, sequence: int, begin: int) -> DataPlace:
    """The place of data that a record will hold."""
    return DataPlace(_PLACE.pack(sequence, begin, len(data), crc32c(data)))


def length_of(data: bytes) -> int:
    """How many bytes data have, or those at a place."""
    return data.length if type(data) is DataPlace else len(data)


def same_data(left: bytes, right: bytes) -> bool:
    """Whether two rows have the same data, wherever these lie."""
    if type(left) is not DataPlace and type(right) is not DataPlace:
        return left == right
    return length_of(left) == length_of(right) and _what(left) == _what(right)


def _what(data: bytes) -> bytes:
    return data[_WHAT:] if type(data) is DataPlace else _LENGTH_SUM.pack(len(data), crc32c(data))
