"""A process that writes documents for ever, and prints what it was told. Arguments: the folder, and the first number."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec
from documents_story import Told, documents_at, write_one


def _say(told: Told) -> None:
    os.write(1, msgspec.json.encode(told) + b"\n")


async def _writer(documents: object, numbers: range) -> None:
    for number in numbers:
        await write_one(documents, number, _say)  # type: ignore[arg-type]


async def main(folder: Path, first: int) -> None:
    async with documents_at(folder) as documents:
        await asyncio.gather(*(_writer(documents, range(first + lane, 1 << 40, 16)) for lane in range(16)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
