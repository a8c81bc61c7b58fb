"""The messages of `pgoutput`, PostgreSQL's own format for changes (protocol version 1), decoded. Pure."""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final

import msgspec

EPOCH = 946_684_800_000  # 2000-01-01, PostgreSQL's epoch, in milliseconds since 1970


class UnsentValue(Enum):
    """A large value that the change did not touch: PostgreSQL does not send it again."""

    UNCHANGED = 1


UNCHANGED: Final = UnsentValue.UNCHANGED
Cell = str | None | UnsentValue


class Begin(msgspec.Struct, frozen=True):
    commit: int  # the LSN of the commit
    at: int  # milliseconds


class Commit(msgspec.Struct, frozen=True):
    end: int  # the LSN behind the commit
    at: int


class Relation(msgspec.Struct, frozen=True):
    oid: int
    schema: str
    name: str
    columns: tuple[tuple[str, int], ...]  # name, type
    key: tuple[str, ...]  # the columns of the replica identity
    full: bool = False  # REPLICA IDENTITY FULL: the old row is sent whole, and `key` has all columns


class RowChange(msgspec.Struct, frozen=True):
    """A change of one row. `old` is its key or the whole row before the change; None where neither was sent."""

    relation: int
    kind: str  # insert, update, delete
    old: tuple[Cell, ...] | None
    new: tuple[Cell, ...] | None
    whole: bool = False  # `old` is the whole row


class Truncate(msgspec.Struct, frozen=True):
    relations: tuple[int, ...]


Decoded = Begin | Commit | Relation | RowChange | Truncate


def decode(data: bytes) -> Decoded | None:
    """Decode one message. Returns None for kinds that are not about rows."""
    match data[:1]:
        case b"B":
            commit, at, _ = struct.unpack_from(">QqI", data, 1)
            return Begin(commit, at // 1000 + EPOCH)
        case b"C":
            _, _, end, at = struct.unpack_from(">BQQq", data, 1)
            return Commit(end, at // 1000 + EPOCH)
        case b"R":
            return _relation(data)
        case b"I":
            (oid,) = struct.unpack_from(">I", data, 1)
            return RowChange(oid, "insert", None, _row(data, 6)[0])
        case b"U":
            (oid,) = struct.unpack_from(">I", data, 1)
            mark, at, old = data[5:6], 6, None
            if mark in (b"K", b"O"):
                old, at = _row(data, 6)
                at += 1  # the N before the new row
            return RowChange(oid, "update", old, _row(data, at)[0], mark == b"O")
        case b"D":
            (oid,) = struct.unpack_from(">I", data, 1)
            return RowChange(oid, "delete", _row(data, 6)[0], None, data[5:6] == b"O")
        case b"T":
            count, _ = struct.unpack_from(">IB", data, 1)
            return Truncate(struct.unpack_from(f">{count}I", data, 6))
    return None


def lsn(text: str) -> int:
    """An LSN as PostgreSQL writes it: 16/B374D848."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(place: int) -> str:
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


def _relation(data: bytes) -> Relation:
    (oid,) = struct.unpack_from(">I", data, 1)
    schema, at = _text(data, 5)
    name, at = _text(data, at)
    identity, count = struct.unpack_from(">BH", data, at)
    at += 3
    columns, key = [], []
    for _ in range(count):
        flags = data[at]
        column, at = _text(data, at + 1)
        (kind,) = struct.unpack_from(">I", data, at)
        at += 8
        columns.append((column, kind))
        if flags & 1:
            key.append(column)
    return Relation(oid, schema or "pg_catalog", name, tuple(columns), tuple(key), identity == 0x66)


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _row(data: bytes, at: int) -> tuple[tuple[Cell, ...], int]:
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    cells: list[Cell] = []
    for _ in range(count):
        mark = data[at]
        at += 1
        if mark == 0x6E:  # n
            cells.append(None)
        elif mark == 0x75:  # u
            cells.append(UNCHANGED)
        else:
            (size,) = struct.unpack_from(">i", data, at)
            cells.append(data[at + 4 : at + 4 + size].decode())
            at += 4 + size
    return tuple(cells), at
