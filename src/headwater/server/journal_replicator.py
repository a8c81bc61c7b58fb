"""The replicator of journals as a child of a server: started once the log is open, started again when it dies, ended with the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

import msgspec

from headwater.client.journal_performer import JournalPerformer
from headwater.client.local import LocalLog
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import HeadwaterError
from headwater.core.settings import Settings
from headwater.journal.loop import LOOK
from headwater.journal.names import is_journal_topic
from headwater.journal.replicator_process import order
from headwater.journal.settings import JOURNAL_SECTION
from headwater.server.journal_expiry import OwnerExpiry

_PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before a restart, by the number of early deaths
_LIVED = 10.0  # seconds of life after which a dead one is started again at once
_PATIENCE = 10.0  # seconds between SIGTERM and SIGKILL: a change under way ends within them


_children: WeakKeyDictionary[JournalPerformer, ReplicatorChild] = WeakKeyDictionary()
_expiries: WeakKeyDictionary[JournalPerformer, OwnerExpiry] = WeakKeyDictionary()


async def opens(performer: JournalPerformer, log: LocalLog) -> None:
    """Start a replicator for the server's directory, as soon as that has a topic of journals, and the daily expiry of what the server
    owns."""
    settings = msgspec.structs.replace(performer.settings, data=performer.settings.data.absolute())
    prefixes = JOURNAL_SECTION.of(settings).prefixes

    async def needed() -> bool:
        try:
            return await log.work(lambda opened: any(is_journal_topic(name, prefixes) for name in opened.topic_names()))
        except HeadwaterError:  # brokers that do not answer now may do so at the next look
            return False

    child = _children[performer] = ReplicatorChild(settings, needed=needed)
    child.start()
    expiry = _expiries[performer] = OwnerExpiry(performer)
    expiry.start()


async def closes(performer: JournalPerformer, log: LocalLog) -> None:
    """End the replicator, and finish the calls under way."""
    expiry = _expiries.pop(performer, None)
    if expiry is not None:
        await expiry.end()
    child = _children.pop(performer, None)
    if child is not None:
        await child.end()
    await performer.aclose()


def child_pid(performer: JournalPerformer) -> int | None:
    """The process that replicates for a server; None where none runs."""
    child = _children.get(performer)
    return None if child is None else child.pid


class ReplicatorChild:
    """Keeps one process running, once it is `needed`. Belongs to one event loop. The end of this process ends it, too: its standard input
    closes."""

    def __init__(self, settings: Settings, *, needed: Callable[[], Awaitable[bool]] | None = None, clock: Clock | None = None) -> None:
        self._settings, self._needed, self._clock = settings, needed, clock or SystemClock()
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self.deaths = 0
        """How often it died and was started again."""

    @property
    def wanted(self) -> bool:
        """Whether the settings let a server replicate."""
        return JOURNAL_SECTION.of(self._settings).replicate

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    def start(self) -> None:
        """Start it, in the background."""
        if self._keeping is None and self.wanted:
            self._keeping = asyncio.create_task(self._keep())

    async def end(self) -> None:
        """Let it finish the change under way, within some seconds, and end it. Ending twice is no error."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping

    async def _keep(self) -> None:
        while self._needed is not None and not await self._needed():
            await self._clock.sleep(LOOK)
        early = 0
        while True:
            began = self._clock.monotonic()
            code = await self._once()
            early = 0 if self._clock.monotonic() - began > _LIVED else early + 1
            pause = _PAUSES[min(early, len(_PAUSES) - 1)]
            self.deaths += 1
            logger = logging.getLogger("headwater.server")
            logger.error("the replicator of journals ended with %d; it is started again in %g s", code, pause)
            await self._clock.sleep(pause)

    async def _once(self) -> int:
        """One life of the process; its exit code."""
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headwater.journal.replicator_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches the server alone, which then ends it
        )
        try:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is dead already: its exit code tells
                process.stdin.write(order(self._settings))
                await process.stdin.drain()
            return await process.wait()
        finally:
            if process.returncode is None:
                await asyncio.shield(_ended(process))


async def _ended(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _PATIENCE)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
