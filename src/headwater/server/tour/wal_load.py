"""The process that the tour kills: many tables write into one region, and tell on standard output what was acknowledged.

A line `TABLE SEQUENCE` follows an answer; a line `TABLE SEQUENCE mark` comes before a mark up to there is asked for.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import headwater

NAMESPACE, REGION, TABLES = "demo", 2, 32
_EVERY, _KEPT = 25, 10  # payloads from mark to mark, and those that a mark leaves


def payload(table: int, sequence: int) -> bytes:
    """What a table writes under a sequence."""
    return f"table {table}, payload {sequence}".encode()


async def load(folder: Path) -> None:
    """Write until the process is killed. A reader that is gone ends it, too."""
    async with headwater.open(folder, config=folder / "headwater.toml") as hw:
        region = await hw.wal(NAMESPACE).open(REGION, create=True)

        async def caller(table: int) -> None:
            sequence = 0
            while True:
                sequence = await region.write(table, [payload(table, sequence + 1)])
                os.write(1, b"%d %d\n" % (table, sequence))
                if sequence % _EVERY == 0:
                    os.write(1, b"%d %d mark\n" % (table, sequence - _KEPT))
                    await region.mark_delete_up_to(table, sequence - _KEPT)

        await asyncio.gather(*map(caller, range(TABLES)))


if __name__ == "__main__":
    asyncio.run(load(Path(sys.argv[1])))
