"""The process that the tour kills: many accounts append events, and it tells on standard output which were acknowledged.

A line `ACCOUNT NUMBER` follows an answer.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import headwater

TOPIC, ACCOUNTS = "bank", 64


def account(number: int) -> str:
    """The id of an account's journal."""
    return f"account-{number}"


def deposit(number: int) -> dict[str, Any]:
    """What every account appends as its event of this number."""
    return {"type": "deposit", "eur": number}


async def load(folder: Path) -> None:
    """Append until the process is killed. A reader that is gone ends it, too."""
    async with headwater.open(folder, config=folder / "headwater.toml") as hw:
        bank = await hw.journals(TOPIC, create=True)

        async def caller(number: int) -> None:
            journal, last = bank[account(number)], 0
            while True:
                last = (await journal.append(deposit(last + 1), expected=last)).last
                os.write(1, b"%d %d\n" % (number, last))

        await asyncio.gather(*map(caller, range(ACCOUNTS)))


if __name__ == "__main__":
    asyncio.run(load(Path(sys.argv[1])))
