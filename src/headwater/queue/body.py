"""The body of a row: what a put has said, in the bytes that the log has of it. Memory keeps the row so, too: one object for each row.

    kind u8 | slot u32 | flags u8 | priority u8 | declaration u16 | insertion u64 | process u64 | expiration u64
    | key length u16 | data length u32 | key | data

All integers are big-endian. The kind is that of the change which has written the row. The flags: 1 the data are bytes, not JSON; 2 the row
is a follow-up; 4 extras follow in the record; 8 the data stay on the log, and the body has their place (`headwater.queue.data_place`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headwater.queue.data_place import DataPlace

BODY = struct.Struct(">BIBBHQQQHI")
BODY_SIZE = BODY.size
BINARY, FOLLOW_UP, HAS_EXTRAS, ON_LOG = 1, 2, 4, 8
FLAGS, PRIORITY = 5, 6  # the places of the bytes
_INSERTION, _PROCESS, _EXPIRATION = slice(9, 17), slice(17, 25), slice(25, 33)
_PART = 10_000
_DATE = struct.Struct(">Q")


class Fields(NamedTuple):
    """A body taken apart."""

    kind: int
    slot: int
    flags: int
    priority: int
    declaration: int
    insertion: int
    process: int
    expiration: int
    key: bytes
    data: bytes
    """Or their place."""


def make_body(
    kind: int,
    slot: int,
    flags: int,
    priority: int,
    declaration: int,
    insertion: int,
    process: int,
    expiration: int,
    key: bytes,
    data: bytes,
) -> bytes:
    return BODY.pack(kind, slot, flags, priority, declaration, insertion, process, expiration, len(key), len(data)) + key + data


def fields(body: bytes) -> Fields:
    """A body taken apart."""
    kind, slot, flags, priority, declaration, insertion, process, expiration, length, _ = BODY.unpack_from(body)
    middle = BODY_SIZE + length
    data = DataPlace(body[middle:]) if flags & ON_LOG else body[middle:]
    return Fields(kind, slot, flags, priority, declaration, insertion, process, expiration, body[BODY_SIZE:middle], data)


def place_in(body: bytes) -> DataPlace:
    """The place of the data, of a body whose flags have `ON_LOG`."""
    return DataPlace(body[BODY_SIZE + (body[33] << 8 | body[34]) :])


def with_place(body: bytes, place: DataPlace) -> bytes:
    """Such a body, whose data lie elsewhere."""
    return body[: BODY_SIZE + (body[33] << 8 | body[34])] + place


def key_of(body: bytes) -> bytes:
    return body[BODY_SIZE : BODY_SIZE + (body[33] << 8 | body[34])]


def process_of(body: bytes) -> int:
    """The process date."""
    return int.from_bytes(body[_PROCESS], "big")


def processes_of(bodies: Sequence[bytes], places: Sequence[int]) -> bytearray:
    """The process dates of many bodies, as a body has them. Some at a time: a million small objects would stay in memory."""
    dates = bytearray()
    for at in range(0, len(places), _PART):
        dates += b"".join([bodies[place][_PROCESS] for place in places[at : at + _PART]])
    return dates


def insertion_of(body: bytes) -> int:
    """The insertion date."""
    return int.from_bytes(body[_INSERTION], "big")


def expiration_of(body: bytes) -> int:
    return int.from_bytes(body[_EXPIRATION], "big")


def with_process(body: bytes, process: int) -> bytes:
    """The body of a row that is to be processed at another date."""
    return body[: _PROCESS.start] + _DATE.pack(process) + body[_PROCESS.stop :]


def body_end(record: bytes, at: int) -> int:
    """Where a body ends that begins at a place of a record."""
    return at + BODY_SIZE + (record[at + 33] << 8 | record[at + 34]) + int.from_bytes(record[at + 35 : at + 39], "big")
