"""The queues of a data directory: creates, changes and deletes them, and opens each that this process owns once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Closed, HeadwaterError, NotOwner, RegionNotFound, UnknownTable
from headwater.core.settings import Settings
from headwater.core.timers import Timers
from headwater.log import Log
from headwater.queue.catalogue import Catalogue, deleted, unknown
from headwater.queue.catalogue_fold import CatalogueFold, QueueEntry, encode_deletion, encode_entry
from headwater.queue.catalogue_watch import CatalogueWatch
from headwater.queue.dead_notices import Post
from headwater.queue.declaration import Declaration, read_declaration
from headwater.queue.effective_settings import QUEUE_SECTION
from headwater.queue.metrics import QueueReading
from headwater.queue.placement import QueueWish, changed_entry, new_entry
from headwater.queue.queue import Queue, open_queue
from headwater.queue.requests import checked_name
from headwater.queue.settings import QueueSettings
from headwater.queue.settings_form import given_settings
from headwater.wal.manager import RegionManager
from headwater.wal.region import Region
from headwater.wal.region_list import region_list
from headwater.wal.settings import RegionSettings

_logger = logging.getLogger("headwater.queue")
_SCRAPE = 5.0  # seconds that a scrape of the metrics waits for the event loop
_PATIENCE = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds: another process without an address owns the catalogue for one change


class OpenQueue(msgspec.Struct, frozen=True, eq=False):
    """A queue that is open here, as the catalogue has it, and the region in which it lies."""

    entry: QueueEntry
    queue: Queue
    region: Region
    declaration: Declaration


class QueueManager:
    """Belongs to one event loop. `regions` is its caller's to close, after this.

    Guarantees: a queue is open once, whoever asks for it. The queues of a region are open together: who owns it looks after the dates of
    all of them. A queue whose region another process has taken is closed with the first `Fenced`, and opened anew by the next call, which
    is `NotOwner` with that process's address. Settings that any process changes are used from then on. After `aclose` calls are `Closed`.
    """

    def __init__(
        self,
        log: Log,
        regions: RegionManager,
        *,
        clock: Clock,
        settings: Settings | None = None,
        serves: bool = False,
        post: Post | None = None,
    ) -> None:
        """`regions`: of the namespace of queues. `settings`: with the defaults of new queues. `serves`: others can reach this process.

        `post`: tells addresses of dead rows.
        """
        self._post = post
        self._log, self._regions, self._clock, self._settings = log, regions, clock, settings or Settings()
        self.catalogue = Catalogue(log, regions, keeps=serves)
        self._timers = Timers(clock)
        self._open: dict[str, OpenQueue] = {}
        self._gates: dict[int, asyncio.Lock] = {}  # by region: its queues are opened by one task at a time
        self._watch: CatalogueWatch | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        regions.ending.append(self._region_ends)

    # -- the catalogue ------------------------------------------------------------------------------------------

    async def list(self) -> Sequence[QueueEntry]:
        """Every queue, sorted by name, whoever owns it."""
        self._check()
        return await self.catalogue.entries()

    async def entry(self, name: str) -> QueueEntry:
        """A queue, whoever owns it. Errors: `UnknownQueue`."""
        self._check()
        return await self.catalogue.entry(checked_name(name))

    async def create(
        self,
        name: str,
        settings: QueueSettings | Mapping[str, Any] | None = None,
        declaration: str | None = None,
        *,
        dry_run: bool = False,
    ) -> tuple[QueueEntry, bool]:
        """Create a queue, or change one that is there; return it, and whether it is new.

        `settings`: those that are to be set. The others are as configured for a new queue, and stay for one that is there.
        `declaration`: the text of a table declaration; None leaves it, "" removes it. `dry_run`: change nothing.
        Errors: `BadInput`; `AlreadyExists` for settings of the region that are fixed; `NotOwner`.
        """
        self._check()
        written = given_settings(settings) if isinstance(settings, QueueSettings) else dict(settings or {})
        wish = QueueWish(
            name=checked_name(name),
            settings=written,
            declaration=None if declaration is None else read_declaration(declaration, name),
        )
        for wait in (*_PATIENCE, None):
            entry = await self.catalogue.find(name)
            if entry is not None and (dry_run or changed_entry(wish, entry, now=0) == entry):
                return changed_entry(wish, entry, now=self._clock.now_ms()), False  # no change: nobody needs to own the catalogue
            try:
                return await self._create(wish, dry_run=dry_run)
            except NotOwner as error:
                if error.address or wait is None:
                    raise
                await self._clock.sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def _create(self, wish: QueueWish, *, dry_run: bool) -> tuple[QueueEntry, bool]:
        taken = {topics.region for topics, _ in await asyncio.to_thread(region_list, self._log, self._regions.namespace)}

        def planned(fold: CatalogueFold) -> tuple[QueueEntry, bool]:
            entry, now = fold.entries.get(wish.name), self._clock.now_ms()
            if entry is not None:
                return changed_entry(wish, entry, now=now), False
            usual = QUEUE_SECTION.of(self._settings, wish.name)
            return new_entry(wish, fold, usual, taken=taken.__contains__, engine=self._log.engine, now=now), True

        async def decide(fold: CatalogueFold) -> tuple[Sequence[bytes], tuple[QueueEntry, bool]]:
            entry, new = planned(fold)
            if new and not fold.users(entry.region):
                await self._make_region(entry)
            return [] if entry == fold.entries.get(wish.name) else [encode_entry(entry)], (entry, new)

        if dry_run:
            return planned(CatalogueFold([encode_entry(entry) for entry in await self.catalogue.entries()]))
        done = await self.catalogue.change(decide)
        self._renewed(done[0])
        return done

    async def _make_region(self, entry: QueueEntry) -> None:
        """1. The region is made. 2. The catalogue names it. A death between leaves an empty region, whose number no queue gets."""
        of = entry.settings
        wanted = RegionSettings(segment=str(of.segment), period=str(of.period), max_record=str(of.max_record), disposal=of.disposal)
        await self._regions.create(entry.region, wanted, copies=of.replication or 0)

    async def delete(self, name: str) -> int:
        """Delete a queue with all of its rows; return how many there were, dead ones included.

        1. Own the catalogue, and the region, also where another process owns that. 2. Remove the rows: the table, or the region where
        nothing else lies in it. 3. Record it. A death between 2 and 3 leaves an empty queue, which can be deleted again.
        Errors: `UnknownQueue`; `NotOwner` of the catalogue.
        """
        self._check()
        checked_name(name)
        await self.catalogue.entry(name)  # an unknown one is told by whoever is asked

        async def decide(fold: CatalogueFold) -> tuple[Sequence[bytes], int]:
            entry = fold.entries.get(name)
            if entry is None:
                raise unknown(name, fold)
            return [encode_deletion(name)], await self._remove(entry, fold)

        return await self.catalogue.change(decide)

    async def _remove(self, entry: QueueEntry, fold: CatalogueFold) -> int:
        rows, alone = 0, fold.users(entry.region) == [entry.name]
        try:
            await self._regions.open(entry.region, take_over=True)
            rows = sum(await (await self.open(entry.name)).count())
        except HeadwaterError as error:  # damaged, or half deleted: who deletes a queue does not need its rows
            _logger.warning("Queue %s is deleted without counting its rows: %s", entry.name, error)
        known = self._open.pop(entry.name, None)
        if known is not None:
            await known.queue.aclose(deleted(entry.name))
        try:
            if alone:
                await self._regions.delete(entry.region)
            else:
                await self._regions.using(entry.region, lambda region: region.drop_table(entry.table))
        except (RegionNotFound, UnknownTable):  # deleted halfway before, or never written
            pass
        return rows

    # -- opening ------------------------------------------------------------------------------------------------

    def known(self, name: str) -> OpenQueue | None:
        """A queue, where it is open, and nobody is known to have taken it."""
        known = self._open.get(name)
        return None if known is None or known.region.fenced else known

    def opened(self, name: str) -> Queue | None:
        """`known`, the queue alone."""
        known = self._open.get(name)
        return None if known is None or known.region.fenced else known.queue

    async def open(self, name: str, *, take_over: bool = False) -> Queue:
        """Own a queue, and those that share its region, and fold their rows. One that is open is returned as it is.

        `take_over`: also where a living process owns it. Errors: `UnknownQueue`; `NotOwner`, which names the owner; `Damaged`.
        """
        return (await self._opened(name, take_over=take_over)).queue

    async def _opened(self, name: str, *, take_over: bool = False) -> OpenQueue:
        self._check()
        known = self.known(name)
        if known is not None and not take_over:
            return known
        self._loop = asyncio.get_running_loop()
        entry = await self.catalogue.entry(checked_name(name))
        async with self._gates.setdefault(entry.region, asyncio.Lock()):
            before = self._regions.opened(entry.region)
            if before is not None and before.fenced:
                await self._regions.fenced(before)
            region = await self._regions.open(entry.region, take_over=take_over)
            self._regions.start_cleaning()
            for other in await self.catalogue.entries():
                if other.region == entry.region and other.name not in self._open:
                    await self._fold(other, region, asked=name)
            self._watched()
            queue = self._open.get(name)
            if self._closed or queue is None:
                raise Closed(f"Queue {name} was closed while it was opened.", hint="Try again.")
            return queue

    async def _fold(self, entry: QueueEntry, region: Region, *, asked: str) -> None:
        """Open one queue of a region. Another one than `asked` that fails is told, and tried again by its own first call."""
        try:
            declaration = read_declaration(entry.declaration)
            queue = await open_queue(
                entry.name, region, entry.table, settings=entry.settings, clock=self._clock, timers=self._timers, post=self._post
            )
        except HeadwaterError as error:
            if entry.name == asked:
                raise
            _logger.warning("Queue %s, which shares region %s with %s, was not opened: %s", entry.name, region.topics, asked, error)
            return
        if self._closed or self._regions.opened(entry.region) is not region:
            await queue.aclose()
            return
        self._open[entry.name] = OpenQueue(entry, queue, region, declaration)

    # -- closing ------------------------------------------------------------------------------------------------

    async def _region_ends(self, region: Region) -> None:
        """A region is about to be closed: end the calls of its queues."""
        gone = [name for name, known in self._open.items() if known.region is region]
        await asyncio.gather(*(self._open.pop(name).queue.aclose() for name in gone), return_exceptions=True)

    async def aclose(self) -> None:
        """Finish the calls under way, and close every queue. Closing twice is no error."""
        self._closed = True
        if self._watch is not None:
            await self._watch.stop()
        ended, self._open = list(self._open.values()), {}
        await asyncio.gather(*(known.queue.aclose() for known in ended))
        if self._region_ends in self._regions.ending:
            self._regions.ending.remove(self._region_ends)
        self._timers.close()

    # -- changes of the catalogue -------------------------------------------------------------------------------

    def _watched(self) -> None:
        if self._watch is None and not self._closed:
            self._watch = CatalogueWatch(self._log, self.catalogue.topics.data, self._look_again)

    async def _look_again(self) -> None:
        """Somebody has changed the catalogue: use the new settings, and close what is deleted."""
        entries = {entry.name: entry for entry in await self.catalogue.entries()}
        for name, known in list(self._open.items()):
            entry = entries.get(name)
            if entry is None or (entry.region, entry.table) != (known.entry.region, known.entry.table):
                if self._open.pop(name, None) is not None:
                    await known.queue.aclose(deleted(name))
            else:
                self._renewed(entry)

    def _renewed(self, entry: QueueEntry) -> None:
        known = self._open.get(entry.name)
        if known is not None and entry.version > known.entry.version:
            known.queue.change_settings(entry.settings)
            self._open[entry.name] = OpenQueue(entry, known.queue, known.region, read_declaration(entry.declaration))

    # -- metrics ------------------------------------------------------------------------------------------------

    def queues(self) -> Iterator[OpenQueue]:
        """Those that are open."""
        yield from list(self._open.values())

    def readings(self) -> Sequence[QueueReading]:
        """What the open queues hold, for the metrics; nothing where the event loop is too busy to say. Called in any thread."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return []
        if _running() is loop:
            return self._read()
        future: Future[Sequence[QueueReading]] = Future()
        try:
            loop.call_soon_threadsafe(lambda: future.set_result(self._read()))
            return future.result(_SCRAPE)
        except (TimeoutError, RuntimeError):  # the loop stands, or has ended
            return []

    def _read(self) -> Sequence[QueueReading]:
        now = self._clock.now_ms()
        return [QueueReading(known.entry.name, now, known.queue.statistics()) for known in self._open.values()]

    def _check(self) -> None:
        if self._closed:
            raise Closed("The queues are closed.", hint="Open them again.")


def _running() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread; None where none runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
