"""What tests of regions stand on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headwater.wal.entries import EntryReader
from headwater.wal.region import Region

Open = Callable[..., Awaitable[Region]]
MAX = 2**64 - 1


async def rows(reader: EntryReader) -> list[tuple[int, int, bytes]]:
    """Table, sequence and payload of everything that a reader gives."""
    return [(entry.table, entry.sequence, entry.payload) async for entry in reader]


async def payloads(reader: EntryReader) -> list[bytes]:
    return [payload for _, _, payload in await rows(reader)]


def numbered(first: int, last: int) -> list[bytes]:
    return [b"payload %d" % number for number in range(first, last + 1)]
