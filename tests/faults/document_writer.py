"""A process that writes documents, and mirrors a view of them, until it is killed. It prints the revision of each write that was answered.

With a number of steps, it kills itself at exactly that step of its files: at a write, a sync, a rename.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

from tests.unit.documents.ground import documents_in, draft
from tests.unit.documents.test_views import ITEMS

from headwater.core.clock import SystemClock
from headwater.core.errors import HeadwaterError
from headwater.core.files import Files
from headwater.documents.feed import DocumentFeeds
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.views import MirroredViews

LAST = ("dir/one", "dir/two", "hats~/last")
DOCUMENTS = ["hats~/a", "hats~/b", "hats~/c", "dir/one", "dir/two"]


class DyingFiles(Files):
    """Ends the process before a step, which is after the one before it."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def step(*args: Any, **kwargs: Any) -> Any:
            self._steps -= 1
            if self._steps == 0:
                os.kill(os.getpid(), 9)
            return found(*args, **kwargs)

        return step


async def _write(documents: OpenDocuments, random: Random) -> None:
    path = random.choice(DOCUMENTS)
    kind = random.random()
    body = {"price": random.randrange(20), "n": random.random()}
    try:
        if kind < 0.15:
            written = await documents.write(draft("delete", path))
        elif kind < 0.4:
            written = await documents.write(draft("patch", path, body))
        else:
            written = await documents.write(draft("put", path, body))
    except HeadwaterError:
        return  # there is nothing to patch or to delete
    sys.stdout.write(f"{path} {written.revision}\n")
    sys.stdout.flush()


async def main(folder: Path, seed: int, steps: int, most: int) -> None:
    random = Random(seed)
    async with documents_in(folder, clock=SystemClock(), files=DyingFiles(steps) if steps else None) as documents:
        topic = await documents.create()
        feeds = DocumentFeeds(documents.log, topic, documents.partition_view, documents.clock)
        views = MirroredViews(documents, lambda: feeds)
        views.start()
        await views.put("cheap~", ITEMS)
        written = 0
        while not most or written < most:
            count = random.choice((1, 1, 5, 20))
            await asyncio.gather(*(_write(documents, random) for _ in range(count)))
            written += count
        for path in LAST:
            await documents.write(draft("put", path, {"price": 1, "n": 0, "last": True}))
        while not await _mirrored(documents):
            await asyncio.sleep(0)
        await views.aclose()
        await feeds.aclose()


async def _mirrored(documents: OpenDocuments) -> bool:
    with documents.view("cheap~") as view:
        return view.row("cheap~", "last") is not None


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
