"""A process that appends to journals with many callers at once, and prints every acknowledged number.

python journal_callers.py DATA NAME CALLERS APPENDS expected|numbered|both
"""

from __future__ import annotations

import asyncio
import sys

import headwater
from headwater.client.journal import Journal
from headwater.core.errors import WrongExpected
from headwater.journal.write import Appended


async def expecting(journal: Journal, payload: str) -> Appended:
    """Append with what the caller has read, again until nobody was first."""
    last = await journal.pointer() or 0
    while True:
        try:
            return await journal.append(payload, expected=last)
        except WrongExpected:
            last = await journal.pointer() or 0


async def main(data: str, name: str, callers: int, appends: int, how: str) -> None:
    async with headwater.open(data) as hw:
        journal = hw.journals("bank")["shared"]

        async def caller(number: int) -> None:
            for step in range(appends):
                payload = f"{name}-{number}-{step}"
                exact = how == "expected" or (how == "both" and number % 2)
                appended = await (expecting(journal, payload) if exact else journal.append(payload))
                print(appended.first, payload, flush=True)

        await asyncio.gather(*(caller(number) for number in range(callers)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))
