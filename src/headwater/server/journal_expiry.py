"""The daily expiry of journals that this server owns. On Kafka a topic of headwater's own takes records of its owners alone, so the
replicator, which is another process, cannot purge there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import UTC, datetime

from headwater.client.journal_performer import JournalPerformer
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, NotOwner
from headwater.journal.care_requests import ExpireJournals
from headwater.journal.chores import EVERY
from headwater.journal.claims import has_claims

_FIRST = 60.0  # seconds: a restart in a row of many costs little


class OwnerExpiry:
    """Takes a turn every hour, and looks through each partition once a day. Belongs to one event loop."""

    def __init__(self, performer: JournalPerformer, *, clock: Clock | None = None) -> None:
        self._performer, self._clock = performer, clock or performer.clock
        self._done: dict[str, set[int]] = {}  # partitions that are done today
        self._day = ""
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take turns, in the background."""
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Take no more turns. Ending twice is no error."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    async def turn(self) -> None:
        """Purge what has expired in partitions that this process owns, or that nobody does. A topic that fails is named in the log
        messages, and tried again with the next turn. Errors: those of the log."""
        today = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).date().isoformat()
        if today != self._day:
            self._day, self._done = today, {}
        for name, partitions in await self._claimed():
            done = self._done.setdefault(name, set())
            if len(done) >= partitions:
                continue
            try:
                with contextlib.suppress(NotOwner):  # another one's, and perhaps this server's at the next turn
                    await self._performer.care.expire(ExpireJournals(topic=name), done)
            except HeadwaterError as error:
                logging.getLogger("headwater.journal").warning("%s: %s %s", name, error.message, error.hint)

    async def _run(self) -> None:
        pause = _FIRST
        while True:
            await self._clock.sleep(pause)
            pause = EVERY
            try:
                await self.turn()
            except HeadwaterError as error:
                logging.getLogger("headwater.journal").warning("%s %s", error.message, error.hint)

    async def _claimed(self) -> list[tuple[str, int]]:
        """The topics whose owners alone may append, and their numbers of partitions."""
        topics = self._performer.topics_open
        return await topics.work_with_log(
            lambda log: [(topic.name, topic.partitions) for topic in topics.topics(log).list() if has_claims(log, topic)]
        )
